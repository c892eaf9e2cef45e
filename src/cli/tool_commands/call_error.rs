//! Errors of calls, with hints that name commands.

use crate::cli::output::{CommandError, Symptom, did_you_mean, quoted};
use mcp_workbench_core::backend;
use mcp_workbench_core::gateway::CallError;
use mcp_workbench_serve::exposure;

const MAX_SUGGESTIONS: usize = 3;

/// Converts an error of a call that didn't reach its tool. The hints name commands; an agent's
/// would name tools.
pub(crate) fn call_error(error: &CallError) -> CommandError {
    let suggestion = |wanted: &str, known: &[String], otherwise: &str| {
        let known = known.iter().map(String::as_str);
        match mcp_workbench_names::nearest(wanted, known.clone(), MAX_SUGGESTIONS).as_slice() {
            [] if known.len() == 0 => {
                "none is available to this agent; use `--agent NAME` for another agent".to_owned()
            }
            [] => format!("{otherwise} {}", quoted(known, ", ")),
            near => did_you_mean(near, ", ").unwrap_or_default(),
        }
    };
    let failed = CommandError::failed(error.to_string());
    match error {
        CallError::UnknownToolbox { wanted, known } => {
            failed.with_hint(suggestion(wanted, known, "available toolboxes:"))
        }
        CallError::UnknownServer { wanted, known, .. } => {
            failed.with_hint(suggestion(wanted, known, "available servers:"))
        }
        CallError::UnknownTool { nearest, .. } if nearest.is_empty() => failed
            .with_hint("run `mcp-workbench list` to see all tools")
            .with_link(Symptom::ToolMissing),
        CallError::UnknownTool { nearest, .. } => failed.with_hint(format!(
            "did you mean {}? Run `mcp-workbench list` to see all tools",
            quoted(nearest.iter().take(MAX_SUGGESTIONS), ", ")
        )),
        CallError::UnknownPrimitive { .. } | CallError::TooManySubscriptions(_) => failed,
        CallError::Refused { hint, .. } => failed.with_hint(hint).with_link(Symptom::CallDenied),
        CallError::NotAnObject { .. } => {
            failed.with_hint("pass a JSON object in single quotes: '{\"name\": \"value\"}'")
        }
        CallError::InvalidArguments { tool, mismatches } => {
            let failed = CommandError::failed(format!("{error}; the tool was not called"));
            let causes = mismatches.iter().map(ToString::to_string);
            causes.fold(failed, |error, cause| error.with_cause(&cause)).with_hint(format!(
                "run `mcp-workbench list {} --json` to see its schema",
                tool.toolbox
            ))
        }
        CallError::Server { server, error: backend::BackendError::StartFailed(failure) } => {
            CommandError::failed(format!("server `{server}` failed to start"))
                .with_cause(&failure.reason)
                .with_hint(&failure.hint)
                .with_link(Symptom::ServerDoesNotStart)
        }
        CallError::Server { .. } => CommandError::from_text(&exposure::error_text(error)),
    }
}
