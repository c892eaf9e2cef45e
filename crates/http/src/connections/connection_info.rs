//! Facts about the connection that a request arrived on.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::http::request::Parts;

use crate::connections::slots::ConnectionSlot;
use crate::tls::acceptor::TlsInfo;

#[derive(Clone)]
pub(crate) struct ConnectionInfo {
    pub(crate) address: IpAddr,
    pub(crate) slot: Arc<ConnectionSlot>,
    /// `None` without TLS.
    pub(crate) secured: Option<TlsInfo>,
}

/// Returns the address of the client that sent this request.
pub(crate) fn address(head: &Parts) -> Option<IpAddr> {
    head.extensions.get::<ConnectionInfo>().map(|peer| peer.address)
}
