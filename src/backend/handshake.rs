//! The first words with a server: the protocol era, and its tool list.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, ProtocolVersion, SubscriptionFilter,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, NotificationContext, Peer,
    RunningService,
};
use rmcp::{ClientHandler, RoleClient};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::catalog::Listing;
use crate::raw::Raw;
use crate::wire::server::{Link, Outcome, RequestError, ServerTransport, Step};

/// The most pages of a tool list that are read.
const MAX_PAGES: usize = 1000;
/// The pause before listening to a modern server again that ended the last subscription.
const RELISTEN: Duration = Duration::from_secs(1);

/// Which revisions of the protocol a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// 2024-11-05 to 2025-11-25: a session begins with `initialize`.
    Legacy,
    /// 2026-07-28: every request says of itself what it needs.
    Modern,
}

/// Hears what a server says unasked.
#[derive(Clone)]
pub(crate) struct Ears {
    /// Told when the server's tools have changed.
    pub(crate) tools_changed: Arc<Notify>,
}

impl ClientHandler for Ears {
    fn get_info(&self) -> ClientConfig {
        // The newest revision with a handshake: some servers refuse a newer one outright.
        ClientConfig::new(ClientCapabilities::default(), implementation())
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tools_changed.notify_one();
    }
}

fn implementation() -> Implementation {
    Implementation::new("mcp-workbench", env!("CARGO_PKG_VERSION")).with_title("MCP Workbench")
}

/// A session that has begun; it ends when this is dropped.
pub(crate) struct Session {
    pub(crate) service: RunningService<RoleClient, Ears>,
    /// What every request of the relay lane must carry in `_meta`.
    pub(crate) meta: Vec<(String, Raw)>,
    pub(crate) has_tools: bool,
    pub(crate) instructions: Option<String>,
}

/// Begins a session in the given era.
pub(crate) async fn begin(
    transport: ServerTransport,
    ears: Ears,
    era: Era,
) -> Result<Session, Box<ClientInitializeError>> {
    let (mode, meta) = match era {
        Era::Legacy => (ClientLifecycleMode::Initialize, Vec::new()),
        Era::Modern => (
            ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            },
            modern_meta(),
        ),
    };
    // The handshake's future is large, and few run at once.
    let service = Box::pin(ears.serve_with_lifecycle(transport, mode)).await.map_err(Box::new)?;
    let server = service.peer().peer_info();
    let has_tools = server.as_ref().is_some_and(|server| server.capabilities.tools.is_some());
    let instructions = server.and_then(|server| server.instructions.clone());
    Ok(Session { service, meta, has_tools, instructions })
}

/// What a modern request says of its client (2026-07-28, basic/index, `_meta`).
fn modern_meta() -> Vec<(String, Raw)> {
    [
        ("protocolVersion", Raw::encode(&ProtocolVersion::V_2026_07_28)),
        ("clientInfo", Raw::encode(&implementation())),
        ("clientCapabilities", Raw::encode(&ClientCapabilities::default())),
    ]
    .map(|(key, value)| (format!("io.modelcontextprotocol/{key}"), value))
    .into()
}

/// Hears a modern server out on changes of its tools, for as long as it lives.
pub(crate) async fn hear_changes(peer: Peer<RoleClient>, tools_changed: Arc<Notify>) {
    let wanted = SubscriptionFilter::builder().tools_list_changed().build();
    while let Ok(mut subscription) = peer.listen(wanted.clone()).await {
        // What changed before we listened would otherwise be lost.
        tools_changed.notify_one();
        while let Ok(Some(_)) = subscription.next().await {
            tools_changed.notify_one();
        }
        if peer.is_transport_closed() {
            return;
        }
        sleep(RELISTEN).await;
    }
}

/// Reads a server's whole tool list. Entries that are malformed are left out with a warning.
pub(crate) async fn list_tools(
    link: &Link,
    meta: &[(String, Raw)],
    label: &str,
) -> Result<Listing, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Page<'a> {
        #[serde(borrow)]
        tools: Vec<&'a RawValue>,
        #[serde(default)]
        next_cursor: Option<String>,
    }

    let mut entries = Vec::new();
    let mut seen = HashSet::new();
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let encoded = cursor.as_ref().map(Raw::encode);
        let params: Vec<_> = encoded.iter().map(|cursor| ("cursor", cursor)).collect();
        let result = ask(link, "tools/list", &params, meta).await?;
        let text: Bytes = result.into_bytes();
        let page: Page<'_> = serde_json::from_slice(&text)
            .map_err(|error| format!("its tool list is not one: {error}"))?;
        entries.extend(page.tools.into_iter().map(|tool| Raw::slice_of(&text, tool)));
        match page.next_cursor {
            None => break,
            Some(next) if !seen.insert(next.clone()) => {
                tracing::warn!(server = label, "the pages of the tool list repeat themselves");
                break;
            }
            Some(next) => cursor = Some(next),
        }
    }
    if seen.len() == MAX_PAGES {
        tracing::warn!(server = label, "only the first {MAX_PAGES} pages of its tools were read");
    }
    let (listing, bad) = Listing::from_tools(entries);
    for tool in bad {
        tracing::warn!(server = label, "a tool was left out: {}: {}", tool.what, tool.why);
    }
    Ok(listing)
}

/// Makes one request and waits for its result; an error says what there was instead.
pub(crate) async fn ask(
    link: &Link,
    method: &str,
    params: &[(&str, &Raw)],
    meta: &[(String, Raw)],
) -> Result<Raw, String> {
    let ended = |error| match error {
        RequestError::NotSent | RequestError::Closed => "it ended".to_owned(),
        RequestError::Oversized(length) => format!("its answer had {length} bytes"),
    };
    let mut request = link.request(method, params, meta, false).await.map_err(ended)?;
    loop {
        match request.next().await {
            Step::Progress(_) => {}
            Step::Done(Ok(Outcome::Result(result))) => return Ok(result),
            Step::Done(Ok(Outcome::Error(error))) => {
                return Err(format!("it answered `{method}` with the error {}", error.as_str()));
            }
            Step::Done(Err(error)) => return Err(ended(error)),
        }
    }
}
