//! The loopback listener for the redirect of one login (RFC 8252 §7.3).

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use url::Url;

use crate::address_policy::is_loopback;
use crate::callback::{Callback, LONGEST};
use crate::client_registration::redirect_uri_for;
use crate::page::{PAGE_HEADERS, Page};
use crate::pending::LoginAttempt;
use crate::record::LoginRecord;
use crate::target::{LoginError, LoginTarget};

const PATH: &str = "/callback";
/// How long a browser has to send its request.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct LoopbackListener {
    sockets: Vec<TcpListener>,
    redirect_uri: Url,
}

impl LoopbackListener {
    /// Binds the configured address, or else the previous port so that a registered redirect URI
    /// stays valid, or else any port. `None` if `oauth.redirectUri` isn't a loopback `http` URL.
    pub(crate) async fn open(
        target: &LoginTarget,
        issuer: &str,
        before: Option<&LoginRecord>,
    ) -> Result<Option<Self>, LoginError> {
        let oauth = &target.oauth;
        if let Some(uri) = &oauth.redirect_uri {
            if !is_loopback(uri) || uri.scheme() != "http" {
                return Ok(None);
            }
            let port = uri.port_or_known_default().unwrap_or(80);
            return fixed(port, uri.clone(), "oauth.redirectUri").await.map(Some);
        }
        if let Some(port) = oauth.callback_port {
            // By name: clients with a fixed port are registered with `localhost`.
            let uri = address("localhost", port);
            return fixed(port, uri, "oauth.callbackPort").await.map(Some);
        }
        let remembered = before.and_then(|before| before.client.redirect_uri.as_ref());
        let remembered = remembered.filter(|uri| uri.host_str() == Some("127.0.0.1"));
        let remembered = remembered.filter(|uri| uri.scheme() == "http").and_then(Url::port);
        let mut socket = None;
        for port in remembered.into_iter().chain([0]) {
            if let Ok(bound) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
                socket = Some(bound);
                break;
            }
        }
        let failed = |error: io::Error| {
            let hint = "set `oauth.grant` to `device_code` in the server's entry";
            LoginError::new(format!("cannot listen for the browser's redirect: {error}"), hint)
        };
        let socket = socket.ok_or_else(|| failed(ErrorKind::AddrNotAvailable.into()))?;
        let port = socket.local_addr().map_err(failed)?.port();
        let redirect_uri = redirect_uri_for(target, address("127.0.0.1", port), issuer, before);
        Ok(Some(Self { sockets: vec![socket], redirect_uri }))
    }

    pub(crate) fn redirect_uri(&self) -> &Url {
        &self.redirect_uri
    }

    /// Accepts callbacks until the attempt ends.
    pub(crate) fn serve(self, waiting: &Arc<LoginAttempt>) {
        let Self { sockets, redirect_uri } = self;
        for socket in sockets {
            let (own, uri) = (Arc::clone(waiting), redirect_uri.clone());
            waiting.spawn_until_ended(async move {
                while let Ok((stream, _)) = socket.accept().await {
                    // One task per connection, because browsers leave some connections idle.
                    let (waiting, uri) = (Arc::clone(&own), uri.clone());
                    own.spawn(async move {
                        let _ = answer(stream, &waiting, &uri).await;
                    });
                }
            });
        }
    }
}

fn address(host: &str, port: u16) -> Url {
    let text = format!("http://{host}:{port}{PATH}");
    #[expect(clippy::expect_used, reason = "host and path are constants")]
    Url::parse(&text).expect("an address")
}

/// Binds a fixed port on both loopback addresses, because `localhost` can resolve to either.
async fn fixed(port: u16, redirect_uri: Url, key: &str) -> Result<LoopbackListener, LoginError> {
    let busy = |error: io::Error| {
        let hint = "stop the program that uses it (it may be another sign-in), or configure \
                    another port and register it";
        LoginError::new(format!("cannot listen on port {port} (`{key}`): {error}"), hint)
    };
    let mut sockets =
        vec![TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await.map_err(busy)?];
    match TcpListener::bind(SocketAddr::from((Ipv6Addr::LOCALHOST, port))).await {
        Ok(socket) => sockets.push(socket),
        Err(error) if error.kind() == ErrorKind::AddrInUse => return Err(busy(error)),
        // IPv6 isn't available.
        Err(_) => {}
    }
    Ok(LoopbackListener { sockets, redirect_uri })
}

async fn answer(
    mut stream: TcpStream,
    waiting: &Arc<LoginAttempt>,
    redirect_uri: &Url,
) -> io::Result<()> {
    let head = waiting.until_ended(timeout(TIMEOUT, head(&mut stream)));
    let Some(Ok(head)) = head.await else { return Ok(()) };
    let target = head?.and_then(|head| target(&head, redirect_uri));
    let page = match target {
        None => Page::nothing(),
        Some(address) => match Callback::read(&address).filter(|back| waiting.is_for(back)) {
            None => Page::no_pending_login(),
            Some(callback) => match waiting.take(callback).await {
                Ok(()) => Page::signed_in(),
                Err(failure) => Page::failed(&failure),
            },
        },
    };
    let status = StatusCode::from_u16(page.status).unwrap_or_default();
    let mut head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n", page.html.len());
    for (name, value) in PAGE_HEADERS {
        head.extend([name, ": ", value, "\r\n"]);
    }
    head.push_str("connection: close\r\n\r\n");
    stream.write_all(format!("{head}{}", page.html).as_bytes()).await?;
    stream.shutdown().await
}

/// Reads the head of a request. `None` if it is too long or incomplete.
async fn head(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let length = stream.read(&mut chunk).await?;
        head.extend_from_slice(&chunk[..length]);
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(String::from_utf8(head).ok());
        }
        if length == 0 || head.len() > 2 * LONGEST {
            return Ok(None);
        }
    }
}

/// Returns the requested URL if its path is the callback path.
fn target(head: &str, redirect_uri: &Url) -> Option<Url> {
    let mut words = head.lines().next()?.split(' ');
    if words.next() != Some("GET") {
        return None;
    }
    let target = words.next().filter(|target| target.starts_with('/'))?;
    let origin = redirect_uri.origin().ascii_serialization();
    let address = Url::parse(&format!("{origin}{target}")).ok()?;
    (address.path() == redirect_uri.path()).then_some(address)
}
