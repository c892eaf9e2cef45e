//! Checks `Host` and `Origin`: only loopback names and those allowed by the configuration are
//! accepted. This stops web pages that reach the server through DNS rebinding.

use std::net::IpAddr;

use hyper::StatusCode;
use hyper::header::{HOST, ORIGIN};
use hyper::http::uri::{Authority, Uri};
use hyper::http::{HeaderValue, request};

use crate::connections::connection_info::ConnectionInfo;
use crate::response::HttpError;
use mcp_workbench_settings::HttpConfig;
use mcp_workbench_wire::code::INVALID_REQUEST;

pub(crate) fn check(request: &request::Parts, allowed: &HttpConfig) -> Result<(), HttpError> {
    if is_taken(request, allowed) {
        return Ok(());
    }
    let message = "only requests from this machine are accepted: Host, and Origin if present, must \
                   be a loopback address or localhost, or be listed in http.allowedHosts and \
                   http.allowedOrigins of the configuration";
    Err(HttpError::new(StatusCode::FORBIDDEN, INVALID_REQUEST, message))
}

fn is_taken(request: &request::Parts, allowed: &HttpConfig) -> bool {
    let mut hosts = request.headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return false;
    };
    let is_ours =
        |host: &Authority| is_plain(host) && (is_loopback(host) || is_allowed_host(host, allowed));
    let target = request.uri.authority();
    let is_host_ours = is_plainly_local(host.as_bytes())
        || host.to_str().is_ok_and(|host| host.parse().is_ok_and(|host| is_ours(&host)));
    is_host_ours
        && target.is_none_or(is_ours)
        && request.headers.get_all(ORIGIN).iter().all(|origin| {
            is_local_origin(origin)
                || is_allowed_origin(origin, allowed)
                || is_own_origin(request, origin)
        })
}

/// `true` for a page served from the requested host itself. Trusted only if this process terminates
/// TLS, because then the certificate vouches for the name.
fn is_own_origin(request: &request::Parts, origin: &HeaderValue) -> bool {
    let is_secured =
        request.extensions.get::<ConnectionInfo>().is_some_and(|peer| peer.secured.is_some());
    let host = origin.as_bytes().strip_prefix(b"https://");
    is_secured && host.is_some() && host == request.headers.get(HOST).map(HeaderValue::as_bytes)
}

fn is_allowed_host(host: &Authority, allowed: &HttpConfig) -> bool {
    let is_known = |known: &Authority| {
        let is_port = known.port_u16().is_none() || known.port_u16() == host.port_u16();
        is_port && known.host().eq_ignore_ascii_case(host.host())
    };
    allowed.allowed_hosts.iter().any(is_known) || is_public_host(host, allowed)
}

/// Ignores the port, because a proxy may listen on another one.
fn is_public_host(host: &Authority, allowed: &HttpConfig) -> bool {
    let public = allowed.public_url.as_ref().and_then(|url| url.host_str());
    public.is_some_and(|public| public.eq_ignore_ascii_case(host.host()))
}

pub(crate) fn is_allowed_origin(origin: &HeaderValue, allowed: &HttpConfig) -> bool {
    allowed.allowed_origins.iter().any(|known| known.as_bytes() == origin.as_bytes())
}

fn is_local_origin(origin: &HeaderValue) -> bool {
    let origin: Option<Uri> = origin.to_str().ok().and_then(|origin| origin.parse().ok());
    // Without a scheme it is `null`, or not from a browser.
    origin.is_some_and(|origin| {
        let is_local = |host: &Authority| is_plain(host) && is_loopback(host);
        origin.scheme().is_some() && origin.authority().is_some_and(is_local)
    })
}

/// Fast path for the usual values of `Host`.
fn is_plainly_local(host: &[u8]) -> bool {
    [b"127.0.0.1", b"localhost"].iter().any(|name| host.strip_prefix(*name).is_some_and(is_port))
}

/// `true` if there is neither user info nor anything but a port after the host.
fn is_plain(authority: &Authority) -> bool {
    authority.as_str().strip_prefix(authority.host()).is_some_and(|rest| is_port(rest.as_bytes()))
}

fn is_port(rest: &[u8]) -> bool {
    let port = rest.strip_prefix(b":");
    rest.is_empty() || port.is_some_and(|port| port.iter().all(u8::is_ascii_digit))
}

fn is_loopback(authority: &Authority) -> bool {
    let host = authority.host();
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || bare.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests;
