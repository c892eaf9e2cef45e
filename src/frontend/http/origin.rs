//! Who may ask: programs of this machine. A page in a browser that has been led here by a name of
//! its own (DNS rebinding) gives itself away by its `Host` or its `Origin`.

use std::net::IpAddr;

use hyper::header::{HOST, ORIGIN};
use hyper::http::uri::{Authority, Uri};
use hyper::http::{HeaderValue, request};

/// Whether the request is meant for this machine, and comes from nowhere else.
pub(crate) fn is_local(request: &request::Parts) -> bool {
    let mut hosts = request.headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return false;
    };
    let target = request.uri.authority();
    host.to_str().is_ok_and(|host| host.parse().is_ok_and(|host| is_loopback(&host)))
        && target.is_none_or(is_loopback)
        && request.headers.get_all(ORIGIN).iter().all(is_local_origin)
}

fn is_local_origin(origin: &HeaderValue) -> bool {
    let origin: Option<Uri> = origin.to_str().ok().and_then(|origin| origin.parse().ok());
    // An origin without a scheme is `null`, or something that no browser sends.
    origin.is_some_and(|origin| {
        origin.scheme().is_some() && origin.authority().is_some_and(is_loopback)
    })
}

fn is_loopback(authority: &Authority) -> bool {
    if authority.as_str().contains('@') {
        return false;
    }
    let host = authority.host();
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || bare.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests;
