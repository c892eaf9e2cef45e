//! The listener that a browser is sent back to: plain HTTP on this machine, for one login.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use url::Url;

use crate::login::callback::{Callback, LONGEST};
use crate::login::http::is_loopback;
use crate::login::page::{PAGE_HEADERS, Page};
use crate::login::pending::Waiting;
use crate::login::place::{Failure, Place};
use crate::login::record::Record;

/// The path that browsers are sent back to.
const PATH: &str = "/callback";
/// How long a browser may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(10);

/// A listener, and the address that leads to it.
pub(crate) struct Listener {
    sockets: Vec<TcpListener>,
    redirect_uri: Url,
}

impl Listener {
    /// Listens where the entry says; else where `before` has done, so that a registered address stays good; else on any
    /// port. `None`: the entry names an address that is not of this machine.
    pub(crate) async fn open(
        place: &Place,
        before: Option<&Record>,
    ) -> Result<Option<Self>, Failure> {
        let oauth = &place.oauth;
        if let Some(uri) = &oauth.redirect_uri {
            if !is_loopback(uri) || uri.scheme() != "http" {
                return Ok(None);
            }
            let port = uri.port_or_known_default().unwrap_or(80);
            return fixed(port, uri.clone(), "oauth.redirectUri").await.map(Some);
        }
        if let Some(port) = oauth.callback_port {
            // By name, for that is what is registered where a port is.
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
            let hint =
                "paste the address that the browser is sent to, or use `oauth.grant: device_code`";
            Failure::new(format!("nothing can listen on this machine: {error}"), hint)
        };
        let socket = socket.ok_or_else(|| failed(ErrorKind::AddrNotAvailable.into()))?;
        let port = socket.local_addr().map_err(failed)?.port();
        Ok(Some(Self { sockets: vec![socket], redirect_uri: address("127.0.0.1", port) }))
    }

    /// The address that leads here.
    pub(crate) fn redirect_uri(&self) -> &Url {
        &self.redirect_uri
    }

    /// Hands on what comes, for as long as the login is waited for.
    pub(crate) fn serve(self, waiting: &Arc<Waiting>) {
        let Self { sockets, redirect_uri } = self;
        for socket in sockets {
            let (own, uri) = (Arc::clone(waiting), redirect_uri.clone());
            waiting.spawn_until_ended(async move {
                while let Ok((stream, _)) = socket.accept().await {
                    // A browser may open several, and say nothing on some.
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
    #[expect(clippy::expect_used, reason = "a host of ours, a number and a path of ours")]
    Url::parse(&text).expect("an address")
}

/// Listens on a port that was chosen, on both addresses of this machine: nobody knows which one a name means.
async fn fixed(port: u16, redirect_uri: Url, key: &str) -> Result<Listener, Failure> {
    let busy = |error: io::Error| {
        let hint = "end the program that has it (it may be another sign-in), or take another port and register that";
        Failure::new(format!("port {port} (`{key}`) cannot be listened on: {error}"), hint)
    };
    let mut sockets =
        vec![TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await.map_err(busy)?];
    match TcpListener::bind(SocketAddr::from((Ipv6Addr::LOCALHOST, port))).await {
        Ok(socket) => sockets.push(socket),
        Err(error) if error.kind() == ErrorKind::AddrInUse => return Err(busy(error)),
        // There is no IPv6 here.
        Err(_) => {}
    }
    Ok(Listener { sockets, redirect_uri })
}

/// Answers one request.
async fn answer(
    mut stream: TcpStream,
    waiting: &Arc<Waiting>,
    redirect_uri: &Url,
) -> io::Result<()> {
    let head = waiting.until_ended(timeout(PATIENCE, head(&mut stream)));
    let Some(Ok(head)) = head.await else { return Ok(()) };
    let target = head?.and_then(|head| target(&head, redirect_uri));
    let page = match target {
        None => Page::nothing(),
        Some(address) => match Callback::read(&address).filter(|back| waiting.is_for(back)) {
            None => Page::nobody_waits(),
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

/// Reads the head of a request; `None` where it is too long or ends before.
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

/// The address that is asked for, if it is that of the callback.
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
