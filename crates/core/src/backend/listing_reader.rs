//! Reads the complete lists of a server.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::backend::handshake::HandshakeResult;
use crate::catalog::{
    Definition, InvalidEntry, Listing, Prompt, Resource, ResourceTemplate, ToolDefinition, shorten,
};
use crate::json::{Member, RawJson};
use crate::name::untrusted_text;
use crate::wire::http_client::HttpTransportError;
use crate::wire::server::{RequestError, RpcOutcome, ServerConnection};

const MAX_ERROR: usize = 1000;
/// Maximum pages read of one list.
const MAX_PAGES: usize = 1000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListKinds {
    pub tools: bool,
    pub resources: bool,
    pub prompts: bool,
}

impl ListKinds {
    pub(crate) const ALL: Self = Self { tools: true, resources: true, prompts: true };

    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            tools: self.tools || other.tools,
            resources: self.resources || other.resources,
            prompts: self.prompts || other.prompts,
        }
    }

    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// Reads the selected lists that the server supports, and takes the others from `last`. Fails if
/// the tool list is unreadable; other unreadable lists only cause a warning. Skips malformed
/// entries.
pub async fn read(
    connection: &ServerConnection,
    handshake: &HandshakeResult,
    last: &Listing,
    kinds: ListKinds,
    label: &str,
) -> Result<Listing, ListError> {
    let reader = ListReader { connection, meta: &handshake.meta, label };
    let abilities = &handshake.capabilities;
    let (tools, resources, templates, prompts) = tokio::join!(
        reader.kind::<ToolDefinition>(kinds.tools && abilities.tools.is_some(), &last.tools),
        reader.kind::<Resource>(kinds.resources && abilities.resources.is_some(), &last.resources),
        reader.kind::<ResourceTemplate>(
            kinds.resources && abilities.resources.is_some(),
            &last.templates
        ),
        reader.kind::<Prompt>(kinds.prompts && abilities.prompts.is_some(), &last.prompts),
    );
    let or_last = |what: &str, error: ListError| {
        let error = error.why;
        tracing::warn!(server = label, "failed to list {what}: {error}");
    };
    Ok(Listing {
        tools: tools?,
        resources: resources.unwrap_or_else(|error| {
            or_last("resources", error);
            last.resources.clone()
        }),
        // Many servers with resources don't implement templates.
        templates: templates.unwrap_or_default(),
        prompts: prompts.unwrap_or_else(|error| {
            or_last("prompts", error);
            last.prompts.clone()
        }),
        instructions: handshake.instructions.clone(),
        capabilities: handshake.capabilities.clone(),
    })
}

struct ListReader<'a> {
    connection: &'a ServerConnection,
    meta: &'a [Member],
    label: &'a str,
}

impl ListReader<'_> {
    async fn kind<T: Definition>(
        &self,
        is_wanted: bool,
        last: &[std::sync::Arc<T>],
    ) -> Result<Vec<std::sync::Arc<T>>, ListError> {
        if !is_wanted {
            return Ok(last.to_vec());
        }
        let (definitions, bad) = T::read_all(self.pages(T::METHOD, T::MEMBER).await?);
        for InvalidEntry { what, why } in bad {
            let (what, why) =
                (untrusted_text::single_line(&what), untrusted_text::single_line(&why));
            let (what, why) = (shorten(&what, MAX_ERROR), shorten(&why, MAX_ERROR));
            tracing::warn!(server = self.label, "skipped {} {what}: {why}", T::KIND_NAME);
        }
        Ok(definitions)
    }

    async fn pages(&self, method: &str, member: &str) -> Result<Vec<RawJson>, ListError> {
        let mut entries = Vec::new();
        let mut seen = HashSet::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let encoded = cursor.as_ref().map(RawJson::encode);
            let params: Vec<_> = encoded.iter().map(|cursor| ("cursor", cursor)).collect();
            let result = ask(self.connection, method, &params, self.meta).await?;
            let page = result
                .member(member)
                .and_then(|entries| entries.items())
                .ok_or_else(|| format!("the response to `{method}` has no `{member}` array"))?;
            entries.extend(page);
            let next =
                result.member("nextCursor").filter(|next| next.as_bytes().starts_with(b"\""));
            let Some(next) = next else { return Ok(entries) };
            match next.decode_string().map(Cow::into_owned) {
                None => {
                    let why = "is not valid Unicode";
                    return Err(format!("the `nextCursor` of `{method}` {why}").into());
                }
                Some(next) if !seen.insert(next.clone()) => {
                    tracing::warn!(
                        server = self.label,
                        "`{method}` repeated a cursor, later pages were not read"
                    );
                    return Ok(entries);
                }
                Some(next) => cursor = Some(next),
            }
        }
        tracing::warn!(
            server = self.label,
            "`{method}` has more than {MAX_PAGES} pages, the rest was not read"
        );
        Ok(entries)
    }
}

pub async fn ask(
    connection: &ServerConnection,
    method: &str,
    params: &[(&str, &RawJson)],
    meta: &[Member],
) -> Result<RawJson, ListError> {
    let answer = match connection.send_request(method, params, meta, false).await {
        Ok(mut asked) => asked.response().await,
        Err(error) => Err(error),
    };
    match answer {
        // The reader of the entries leaves out those with unreadable names.
        Ok(RpcOutcome::Result(result))
        | Err(RequestError::UnreadableName(RpcOutcome::Result(result))) => Ok(result),
        Ok(RpcOutcome::Error(error))
        | Err(RequestError::UnreadableName(RpcOutcome::Error(error))) => Err(ListError {
            why: format!(
                "`{method}` failed: {}",
                shorten(&untrusted_text::single_line(&error.as_str()), MAX_ERROR)
            ),
            wants_sign_in: HttpTransportError::from_error_object(&error)
                == Some(HttpTransportError::SignIn),
        }),
        Err(RequestError::NotSent | RequestError::Closed) => {
            Err("the server closed the connection".to_owned().into())
        }
        Err(RequestError::Oversized(length)) => {
            Err(format!("response of {length} bytes exceeds `limits.maxMessageBytes`").into())
        }
    }
}

#[derive(Debug)]
pub struct ListError {
    pub why: String,
    /// `true` if only a sign-in is missing.
    pub wants_sign_in: bool,
}

impl From<String> for ListError {
    fn from(why: String) -> Self {
        Self { why, wants_sign_in: false }
    }
}
