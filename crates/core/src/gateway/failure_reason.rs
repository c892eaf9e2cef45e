//! Why a call failed, for people who watch the workbench. Agents get the error itself.

use std::borrow::Cow;

use crate::backend::{self, RpcOutcome};
use crate::catalog::schema::format_violations;
use crate::gateway::error::CallError;
use crate::gateway::macros::values::text_of;
use crate::gateway::models::Models;
use crate::gateway::scope::server_ref;
use crate::gateway::servers::Servers;
use crate::telemetry::{CallContext, Redactor};
use mcp_workbench_names::untrusted_text;
use mcp_workbench_wire::json::RawJson;

/// Maximum length of a reason, in characters.
const MAX_REASON: usize = 1_000;
/// In bytes. Longer texts are cut before invisible characters are removed.
const MAX_CLEANED: usize = 16 * 1024;

/// Returns the text without control characters, and without the secrets of the configuration,
/// of the server's process and of the call's arguments.
pub(crate) fn failure_reason(
    text: &str,
    call: &CallContext<'_>,
    servers: &Servers,
    models: &Models,
) -> Option<String> {
    let subject = &call.subject;
    let server = subject.toolbox.zip(subject.server);
    let server =
        server.and_then(|(toolbox, server)| servers.managed_server(&server_ref(toolbox, server)));
    let others = server.map(|server| server.spec().secrets());
    let others = others.into_iter().chain(subject.arguments.map(Redactor::from_members));
    let mut text = models.redact(text);
    for secrets in others {
        text = Cow::Owned(secrets.redact_json_text(&text).into_owned());
    }
    // Only now: a cut secret would not be recognized.
    let text = untrusted_text::clean_lines(&text[..text.floor_char_boundary(MAX_CLEANED)]);
    match text.char_indices().nth(MAX_REASON) {
        Some((end, _)) => Some(format!("{}…", &text[..end])),
        None => Some(text).filter(|text| !text.is_empty()),
    }
}

/// Returns the text of a failed call's error.
pub(crate) fn text_of_outcome(called: &Result<RpcOutcome, CallError>) -> String {
    match called {
        Ok(RpcOutcome::Result(result)) => text_of_result(result),
        Ok(RpcOutcome::Error(error)) => text_of_protocol_error(error),
        Err(error) => text_of_error(error),
    }
}

fn text_of_result(result: &RawJson) -> String {
    let text = text_of(result);
    if !text.trim().is_empty() {
        return text;
    }
    let structured = result.member("structuredContent");
    structured.map(|value| value.as_str().into_owned()).unwrap_or_default()
}

fn text_of_protocol_error(error: &RawJson) -> String {
    let message = error.member("message");
    let message = message.as_ref().and_then(RawJson::decode_string_lossy).unwrap_or_default();
    match error.member("code") {
        Some(code) => format!("{message} (code {})", code.as_str()).trim_start().to_owned(),
        None => message.into_owned(),
    }
}

pub(crate) fn text_of_error(error: &CallError) -> String {
    let more = match error {
        CallError::InvalidArguments { mismatches, .. } => format_violations(mismatches),
        CallError::Refused { hint, .. } => format!("hint: {hint}"),
        CallError::Server { error: backend::BackendError::StartFailed(failure), .. } => {
            format!("hint: {}", failure.hint)
        }
        CallError::Server { error: backend::BackendError::Remote(failure), .. } => {
            format!("hint: {}", failure.hint)
        }
        _ => String::new(),
    };
    format!("{error}\n{more}")
}

#[cfg(test)]
mod tests;
