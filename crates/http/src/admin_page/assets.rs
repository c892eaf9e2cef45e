//! The static files of the admin page, embedded in the program.

use std::sync::LazyLock;

use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, HeaderValue,
    IF_NONE_MATCH,
};
use hyper::{HeaderMap, StatusCode};
use ring::digest::{Context, SHA256};

use crate::response::with_private_headers;
use crate::response::{self, HttpResponse};

pub(crate) const PAGE: &str = "page.html";

/// Only the page's own scripts, styles and requests. Trusted Types keep text from becoming markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; \
                      form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

type Asset = (&'static str, &'static str, &'static str);

macro_rules! assets {
    ($($name:literal: $form:expr,)*) => {
        [$(($name, $form, include_str!(concat!("../../page/", $name))),)*]
    };
}

const ASSETS: [Asset; 16] = assets! {
    "page.html": HTML,
    "page.css": CSS,
    "icon.svg": SVG,
    "app.js": JS,
    "approvals.js": JS,
    "charts.js": JS,
    "client.js": JS,
    "configuration.js": JS,
    "dom.js": JS,
    "form.js": JS,
    "format.js": JS,
    "json.js": JS,
    "overview.js": JS,
    "savings.js": JS,
    "tools.js": JS,
    "words.js": JS,
};

/// One `ETag` for all files, so that a browser never mixes files of two versions.
static MARK: LazyLock<String> = LazyLock::new(|| {
    let mut context = Context::new(&SHA256);
    for (_, _, text) in &ASSETS {
        context.update(text.as_bytes());
    }
    format!("\"{}\"", URL_SAFE_NO_PAD.encode(&context.finish().as_ref()[..12]))
});

/// Returns a file, or 304 if the browser has it. `None` for an unknown name.
pub(crate) fn answer(name: &str, headers: &HeaderMap) -> Option<HttpResponse> {
    let (_, form, text) = ASSETS.iter().find(|(known, _, _)| *known == name)?;
    let is_known =
        headers.get(IF_NONE_MATCH).is_some_and(|said| said.as_bytes() == MARK.as_bytes());
    let mut reply =
        response::empty(if is_known { StatusCode::NOT_MODIFIED } else { StatusCode::OK });
    if !is_known {
        *reply.body_mut() = Body::from(*text);
    }
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(form));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    let opener = HeaderName::from_static("cross-origin-opener-policy");
    headers.insert(opener, HeaderValue::from_static("same-origin"));
    if let Ok(mark) = HeaderValue::from_str(&MARK) {
        headers.insert(ETAG, mark);
    }
    Some(with_private_headers(reply))
}
