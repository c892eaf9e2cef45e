//! The address of a server, and the transport that it uses.

use reqwest::{StatusCode, Url};
use tokio::sync::OnceCell;

/// Which transport to use for a server over HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TransportMode {
    /// Streamable HTTP, since 2025-03-26.
    #[default]
    Streamable,
    /// HTTP with SSE, of 2024-11-05.
    Sse,
    /// Streamable HTTP first, then HTTP with SSE if the server rejects the first message with 400,
    /// 404 or 405.
    StreamableThenSse,
}

/// The URL and the transport of a server over HTTP.
#[derive(Clone, Debug)]
pub struct ServerAddress {
    /// `http` or `https`. With HTTP and SSE, the URL of the event stream.
    pub url: Url,
    pub transport: TransportMode,
}

impl From<Url> for ServerAddress {
    fn from(url: Url) -> Self {
        Self { url, transport: TransportMode::default() }
    }
}

pub(super) struct TransportState {
    /// The configured URL.
    pub(super) url: Url,
    transport: TransportMode,
    /// The URL for HTTP with SSE that messages are posted to, once the server has named it.
    pub(super) endpoint: OnceCell<Url>,
}

impl TransportState {
    pub(super) fn new(ServerAddress { url, transport }: ServerAddress) -> Self {
        Self { url, transport, endpoint: OnceCell::new() }
    }

    pub(super) fn uses_sse(&self) -> bool {
        self.transport == TransportMode::Sse || self.endpoint.initialized()
    }

    /// Returns `true` if a first message rejected with `status` should be sent with HTTP with SSE
    /// (2025-03-26, basic/transports, backwards compatibility).
    pub(super) fn falls_back_on(&self, status: StatusCode) -> bool {
        self.transport == TransportMode::StreamableThenSse
            && matches!(status.as_u16(), 400 | 404 | 405)
    }
}
