//! The first words with a server: which revisions it speaks, and what it says of itself.
//!
//! A server of the older revisions is greeted with `initialize`, one of 2026-07-28 with
//! `server/discover`. Which it is shows in its answers alone: there are servers that refuse what
//! they do not know, servers that end, and servers that stay silent. So one greeting is sent; when
//! it is refused, or nothing has come for a while, the other one is sent too, and the first that is
//! answered with a result counts. Whatever comes later is dropped by the wire.

use std::time::Duration;

use rmcp::model::{Implementation, ProtocolVersion};
use serde::Deserialize;
use tokio::time::timeout;

use crate::catalog::{Abilities, shorten};
use crate::name::seen;
use crate::raw::{Member, Raw};
use crate::settings::Protocol;
use crate::wire::code::UNSUPPORTED_PROTOCOL_VERSION;
use crate::wire::remote::Failure;
use crate::wire::server::{Link, Outcome, Pending, RequestError};

/// How long a refused greeting waits for a server that may be about to end because of it.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// Which revisions of the protocol a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// 2024-11-05 to 2025-11-25: a session begins with `initialize`.
    Legacy,
    /// 2026-07-28: every request says of itself what it needs.
    Modern,
}

impl Era {
    /// The other one.
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Legacy => Self::Modern,
            Self::Modern => Self::Legacy,
        }
    }

    fn method(self) -> &'static str {
        match self {
            Self::Legacy => "initialize",
            Self::Modern => "server/discover",
        }
    }
}

/// A server's introduction of itself.
#[derive(Debug)]
pub struct Greeting {
    pub(crate) era: Era,
    pub(crate) abilities: Abilities,
    pub instructions: Option<String>,
    /// The name that it gives itself (MCP, `Implementation`).
    pub info: Option<Raw>,
    /// The members of `_meta` that every request to it must carry.
    pub meta: Vec<Member>,
}

/// Why a greeting came to nothing.
#[derive(Debug)]
pub enum Unwelcome {
    /// The server answered that it does not speak this way.
    Refused(Refusal),
    /// It answered something else.
    Confused(String),
    /// It wants somebody to sign in before it says more.
    SignIn,
    /// The link ended.
    Ended,
}

/// A server's refusal of a greeting.
#[derive(Debug)]
pub struct Refusal {
    pub(crate) message: String,
    /// The failure below the messages, where the server sent no message.
    pub(crate) failure: Option<Failure>,
    /// `true` if it refuses our revision and says in doing so that it speaks it.
    speaks_ours: bool,
}

impl Refusal {
    fn new(error: &Raw) -> Self {
        #[derive(Deserialize)]
        struct Unsupported {
            code: i64,
            data: Supported,
        }
        #[derive(Deserialize)]
        struct Supported {
            supported: Vec<String>,
        }

        let unsupported = error.parse::<Unsupported>().ok();
        let speaks_ours = unsupported.is_some_and(|error| {
            let ours = ProtocolVersion::V_2026_07_28;
            error.code == UNSUPPORTED_PROTOCOL_VERSION
                && error.data.supported.iter().any(|version| version == ours.as_str())
        });
        Self { message: message(error), failure: Failure::of(error), speaks_ours }
    }
}

/// Greets a server. `first` is the era to try first where `protocol` leaves the choice; the other
/// one follows when that is refused, or when nothing has come for `patience`.
pub async fn begin(
    link: &Link,
    protocol: Protocol,
    first: Era,
    capabilities: &Raw,
    patience: Duration,
) -> Result<Greeting, Unwelcome> {
    match greet_both(link, protocol, first, capabilities, patience).await {
        // A server may have come to speak our revision since it was asked.
        Err(Unwelcome::Refused(Refusal { speaks_ours: true, .. })) => {
            greet_both(link, protocol, first, capabilities, patience).await
        }
        greeting => greeting,
    }
}

async fn greet_both(
    link: &Link,
    protocol: Protocol,
    first: Era,
    capabilities: &Raw,
    patience: Duration,
) -> Result<Greeting, Unwelcome> {
    let (first, second) = match protocol {
        Protocol::Auto => (first, Some(first.other())),
        Protocol::Legacy => (Era::Legacy, None),
        Protocol::Modern => (Era::Modern, None),
    };
    let mut asked = greet(link, first, capabilities).await?;
    let Some(second) = second else {
        return read(link, first, asked.done().await, capabilities);
    };
    let mut refusal = match timeout(patience, asked.done()).await {
        Ok(answer) => match read(link, first, answer, capabilities) {
            Err(Unwelcome::Refused(refusal)) => Some(refusal),
            read => return read,
        },
        Err(_) => None,
    };
    let is_unreachable = |refusal: &Refusal| {
        matches!(refusal.failure, Some(Failure::Unreachable | Failure::Untrusted))
    };
    if let Some(refusal) = refusal.take_if(|refusal| is_unreachable(refusal)) {
        return Err(Unwelcome::Refused(refusal));
    }
    // One that ends of what it does not know is not asked again.
    if timeout(LAST_WORDS, link.closed()).await.is_ok() {
        return Err(refusal.map_or(Unwelcome::Ended, Unwelcome::Refused));
    }
    let mut also_asked = greet(link, second, capabilities).await?;
    if let Some(refusal) = refusal {
        return match read(link, second, also_asked.done().await, capabilities) {
            // What counts is about the era that servers commonly speak.
            Err(Unwelcome::Refused(_)) if first == Era::Legacy => Err(Unwelcome::Refused(refusal)),
            // It may have ended of the second greeting, having refused the first.
            Err(Unwelcome::Ended) => Err(Unwelcome::Refused(refusal)),
            read => read,
        };
    }
    let (mut has_first, mut has_second) = (false, false);
    loop {
        let (era, answer) = tokio::select! {
            answer = asked.done(), if !has_first => { has_first = true; (first, answer) }
            answer = also_asked.done(), if !has_second => { has_second = true; (second, answer) }
        };
        match read(link, era, answer, capabilities) {
            Err(Unwelcome::Refused(_)) if !(has_first && has_second) => {}
            read => {
                // A handshake is not cancelled, only no longer waited for.
                asked.forget();
                also_asked.forget();
                return read;
            }
        }
    }
}

async fn greet(link: &Link, era: Era, capabilities: &Raw) -> Result<Pending, Unwelcome> {
    let sent = match era {
        Era::Legacy => {
            // The newest revision with a handshake: some servers refuse a newer one outright.
            let version = Raw::encode(&ProtocolVersion::LATEST_WITH_INITIALIZE);
            let ourselves = Raw::encode(&implementation());
            let params = [
                ("protocolVersion", &version),
                ("capabilities", capabilities),
                ("clientInfo", &ourselves),
            ];
            link.request(era.method(), &params, &[], false).await
        }
        Era::Modern => link.request(era.method(), &[], &modern_meta(capabilities), false).await,
    };
    sent.map_err(|_| Unwelcome::Ended)
}

fn read(
    link: &Link,
    era: Era,
    answer: Result<Outcome, RequestError>,
    capabilities: &Raw,
) -> Result<Greeting, Unwelcome> {
    #[derive(Deserialize)]
    struct Said {
        #[serde(default)]
        capabilities: Abilities,
        #[serde(default)]
        instructions: Option<String>,
    }

    let result = match answer {
        Ok(Outcome::Result(result)) => result,
        Ok(Outcome::Error(error)) => {
            return Err(Unwelcome::Refused(Refusal::new(&error)));
        }
        Err(RequestError::Oversized(length)) => {
            return Err(Unwelcome::Confused(format!("its greeting had {length} bytes")));
        }
        Err(RequestError::NotSent | RequestError::Closed) => return Err(Unwelcome::Ended),
    };
    let said: Said = result.parse().map_err(|error| {
        let error = shorten(&seen::line(&error.to_string()), MAX_MESSAGE);
        Unwelcome::Confused(format!("its answer to `{}` is not one: {error}", era.method()))
    })?;
    let meta = match era {
        Era::Legacy => {
            link.notify("notifications/initialized", None);
            Vec::new()
        }
        Era::Modern => modern_meta(capabilities),
    };
    let in_meta = || result.member("_meta")?.member("io.modelcontextprotocol/serverInfo");
    let info = result.member("serverInfo").or_else(in_meta).map(|info| info.detached());
    let Said { capabilities: abilities, instructions } = said;
    Ok(Greeting { era, abilities, instructions, info, meta })
}

/// The most characters of what a server says in an error.
const MAX_MESSAGE: usize = 1000;

/// The message of an error object, or all of it, on one line.
pub(crate) fn message(error: &Raw) -> String {
    #[derive(Deserialize)]
    struct Message {
        message: String,
    }

    let said = error.parse::<Message>().map(|error| error.message);
    shorten(&seen::line(&said.unwrap_or_else(|_| error.as_str().into_owned())), MAX_MESSAGE)
}

fn implementation() -> Implementation {
    Implementation::new("mcp-workbench", env!("CARGO_PKG_VERSION")).with_title("MCP Workbench")
}

/// The members of `_meta` in which a modern request tells of its client (2026-07-28, basic/index,
/// `_meta`).
pub(crate) fn modern_meta(capabilities: &Raw) -> Vec<Member> {
    [
        ("protocolVersion", Raw::encode(&ProtocolVersion::V_2026_07_28)),
        ("clientInfo", Raw::encode(&implementation())),
        ("clientCapabilities", capabilities.clone()),
    ]
    .map(|(key, value)| (format!("io.modelcontextprotocol/{key}").into(), value))
    .into()
}

#[cfg(test)]
mod tests;
