//! The lists of a server, read whole.

use std::collections::HashSet;

use serde::Deserialize;

use crate::backend::handshake::Greeting;
use crate::catalog::{
    BadEntry, Definition, Listing, Prompt, Resource, Template, ToolDefinition, shorten,
};
use crate::name::seen;
use crate::raw::{Member, Raw};
use crate::wire::remote::Failure;
use crate::wire::server::{Link, Outcome, RequestError};

/// The most characters of an error that are repeated.
const MAX_ERROR: usize = 1000;
/// The most pages of one list that are read.
const MAX_PAGES: usize = 1000;

/// The lists of a server that may have changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    pub tools: bool,
    pub resources: bool,
    pub prompts: bool,
}

impl Kinds {
    /// All of them.
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

/// Reads those lists of a server that are asked for and that it says it has; the others are taken
/// from `last`. A server without a readable list of tools is of no use; of the other lists, one
/// that cannot be read costs itself and a warning. Entries that are malformed are left out.
pub async fn read(
    link: &Link,
    greeting: &Greeting,
    last: &Listing,
    kinds: Kinds,
    label: &str,
) -> Result<Listing, Unread> {
    let reader = Reader { link, meta: &greeting.meta, label };
    let abilities = &greeting.abilities;
    let (tools, resources, templates, prompts) = tokio::join!(
        reader.kind::<ToolDefinition>(kinds.tools && abilities.tools.is_some(), &last.tools),
        reader.kind::<Resource>(kinds.resources && abilities.resources.is_some(), &last.resources),
        reader.kind::<Template>(kinds.resources && abilities.resources.is_some(), &last.templates),
        reader.kind::<Prompt>(kinds.prompts && abilities.prompts.is_some(), &last.prompts),
    );
    let or_last = |what: &str, error: Unread| {
        let error = error.why;
        tracing::warn!(server = label, "its {what} could not be listed: {error}");
    };
    Ok(Listing {
        tools: tools?,
        resources: resources.unwrap_or_else(|error| {
            or_last("resources", error);
            last.resources.clone()
        }),
        // Many servers that have resources know nothing of templates.
        templates: templates.unwrap_or_default(),
        prompts: prompts.unwrap_or_else(|error| {
            or_last("prompts", error);
            last.prompts.clone()
        }),
        instructions: greeting.instructions.clone(),
        abilities: greeting.abilities.clone(),
    })
}

struct Reader<'a> {
    link: &'a Link,
    meta: &'a [Member],
    label: &'a str,
}

impl Reader<'_> {
    async fn kind<T: Definition>(
        &self,
        is_wanted: bool,
        last: &[std::sync::Arc<T>],
    ) -> Result<Vec<std::sync::Arc<T>>, Unread> {
        if !is_wanted {
            return Ok(last.to_vec());
        }
        let (definitions, bad) = T::read_all(self.pages(T::METHOD, T::MEMBER).await?);
        for BadEntry { what, why } in bad {
            let (what, why) = (seen::line(&what), seen::line(&why));
            let (what, why) = (shorten(&what, MAX_ERROR), shorten(&why, MAX_ERROR));
            tracing::warn!(server = self.label, "a {} was left out: {what}: {why}", T::WORD);
        }
        Ok(definitions)
    }

    /// The entries of all pages of a list.
    async fn pages(&self, method: &str, member: &str) -> Result<Vec<Raw>, Unread> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Next {
            #[serde(default)]
            next_cursor: Option<String>,
        }

        let mut entries = Vec::new();
        let mut seen = HashSet::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let encoded = cursor.as_ref().map(Raw::encode);
            let params: Vec<_> = encoded.iter().map(|cursor| ("cursor", cursor)).collect();
            let result = ask(self.link, method, &params, self.meta).await?;
            let page = result
                .member(member)
                .and_then(|entries| entries.items())
                .ok_or_else(|| format!("its answer to `{method}` has no list `{member}`"))?;
            entries.extend(page);
            match result.parse::<Next>().ok().and_then(|next| next.next_cursor) {
                None => return Ok(entries),
                Some(next) if !seen.insert(next.clone()) => {
                    tracing::warn!(
                        server = self.label,
                        "the pages of `{method}` repeat themselves"
                    );
                    return Ok(entries);
                }
                Some(next) => cursor = Some(next),
            }
        }
        tracing::warn!(
            server = self.label,
            "only the first {MAX_PAGES} pages of `{method}` were read"
        );
        Ok(entries)
    }
}

/// Makes one request and waits for its result; an error says what there was instead.
pub async fn ask(
    link: &Link,
    method: &str,
    params: &[(&str, &Raw)],
    meta: &[Member],
) -> Result<Raw, Unread> {
    let answer = match link.request(method, params, meta, false).await {
        Ok(mut asked) => asked.done().await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(Outcome::Result(result)) => Ok(result),
        Ok(Outcome::Error(error)) => Err(Unread {
            why: format!(
                "it answered `{method}` with the error {}",
                shorten(&seen::line(&error.as_str()), MAX_ERROR)
            ),
            wants_sign_in: Failure::of(&error) == Some(Failure::SignIn),
        }),
        Err(RequestError::NotSent | RequestError::Closed) => Err("it ended".to_owned().into()),
        Err(RequestError::Oversized(length)) => {
            Err(format!("its answer had {length} bytes").into())
        }
    }
}

/// Why something could not be read.
#[derive(Debug)]
pub struct Unread {
    /// The reason, in words.
    pub why: String,
    /// `true` if all that is missing is that somebody signs in.
    pub wants_sign_in: bool,
}

impl From<String> for Unread {
    fn from(why: String) -> Self {
        Self { why, wants_sign_in: false }
    }
}
