//! The beginning of a login: finding out how to, and the address that a browser is to open.

use std::sync::Arc;

use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT, WWW_AUTHENTICATE};
use http::{Request, StatusCode};

use crate::login::attempt::kept;
use crate::login::begun::Attempt;
use crate::login::device;
use crate::login::discovery::{Found, discover};
use crate::login::listener::Listener;
use crate::login::pending::{Pending, Waiting};
use crate::login::pkce;
use crate::login::place::{Back, Failure, Place};
use crate::login::record::{Authority, Record, union};
use crate::login::register::{check_issuer, client};
use crate::login::sign_in::Login;
use crate::settings::Grant;

/// A question that a server refuses to answer to nobody in particular, and that does nothing where it is answered.
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// The reason that a login is not begun where the server asks for none.
pub const WANTS_NONE: &str = "the server does not ask for a sign-in";

/// Begins a login.
pub(crate) async fn begin(login: &Arc<Login>, back: Back) -> Result<Pending, Failure> {
    let place = &login.place;
    if place.oauth.is_off {
        let hint = "take `\"oauth\": false` out of its entry";
        return Err(Failure::new("signing in is switched off for this server", hint));
    }
    if login.is_machine() {
        let hint = "nothing is to be done: a token is got when the server asks for one";
        return Err(Failure::new("nobody signs in at this server by hand (`oauth.grant`)", hint));
    }
    let challenge = match login.challenge() {
        Some(challenge) => Some(challenge),
        None => probe(login).await?,
    };
    let found = discover(login.http(), place, challenge.as_deref()).await.map_err(|failure| {
        let wants_none = challenge.is_none() && place.oauth.metadata_url.is_none();
        if wants_none && failure.reason == crate::login::discovery::UNSAID {
            Failure::new(WANTS_NONE, "use it as it is")
        } else {
            failure
        }
    })?;
    let before = login.reload().await;
    check_issuer(place, before.as_deref(), &found.authority)?;
    let asked = scopes(place, &found, before.as_deref());
    if matches!(place.oauth.grant, Grant::Device) {
        return device::begin(login, found, asked, before.as_deref()).await;
    }
    browser(login, found, asked, before.as_deref(), back).await
}

/// The scopes to ask for: those of the entry, or that the server names; where more was wanted than was granted, all
/// of it.
fn scopes(place: &Place, found: &Found, before: Option<&Record>) -> Vec<String> {
    let mut asked = place.oauth.scopes.clone().unwrap_or_else(|| found.scopes.clone());
    if let Some(before) = before.filter(|before| !before.wanted.is_empty()) {
        asked = union(&[&before.scopes, &before.wanted, &asked]);
    }
    asked
}

/// Asks the server anything, to hear how it refuses; `None`: it does not.
async fn probe(login: &Login) -> Result<Option<String>, Failure> {
    let url = &login.place.url;
    let request = Request::post(url.as_str())
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, text/event-stream")
        .header(USER_AGENT, concat!("mcp-workbench/", env!("CARGO_PKG_VERSION")))
        .body(PING.as_bytes().to_vec());
    let failed = |why: String| Failure::new(why, "look whether the server runs");
    let request = request.map_err(|error| failed(error.to_string()))?;
    let answer = login.http().head(request).await.map_err(failed)?;
    if !matches!(answer.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return Ok(None);
    }
    let schemes = answer.headers.get_all(WWW_AUTHENTICATE).iter();
    let schemes: Vec<&str> = schemes.filter_map(|scheme| scheme.to_str().ok()).collect();
    Ok(Some(schemes.join(", ")))
}

/// Checks that the authorization server knows the one kind of PKCE that is safe.
fn check_pkce(place: &Place, authority: &Authority) -> Result<(), Failure> {
    match &authority.challenge_methods {
        Some(known) if known.iter().any(|method| method == "S256") => Ok(()),
        // The revision that lets one guess demands it of all.
        None if authority.is_guessed || place.oauth.allows_no_pkce => Ok(()),
        None => Err(Failure::new(
            "its authorization server does not say that it knows PKCE, which keeps codes from thieves",
            "if you trust it all the same, set `oauth.pkce` to `lax` in the server's entry",
        )),
        Some(_) => Err(Failure::new(
            "its authorization server does not know PKCE with `S256`, which keeps codes from thieves",
            "ask whoever runs it",
        )),
    }
}

/// Begins a login in a browser (RFC 6749 §4.1, RFC 7636).
async fn browser(
    login: &Arc<Login>,
    found: Found,
    asked: Vec<String>,
    before: Option<&Record>,
    back: Back,
) -> Result<Pending, Failure> {
    let place = &login.place;
    let Found { authority, resource, .. } = found;
    check_pkce(place, &authority)?;
    let Some(endpoint) = authority.authorization_endpoint.clone() else {
        let reason = "its authorization server has no page to sign in on";
        return Err(Failure::new(reason, "choose another `oauth.grant`"));
    };
    let (listener, redirect_uri) = match back {
        Back::At(address) => (None, address),
        Back::Listener => {
            let listener = Listener::open(place, before).await?;
            let own = listener.as_ref().map(|listener| listener.redirect_uri().clone());
            let named = own.or_else(|| place.oauth.redirect_uri.clone());
            let hint = "look at `oauth.redirectUri`";
            let named =
                named.ok_or_else(|| Failure::new("there is no address to come back to", hint))?;
            (listener, named)
        }
    };
    let client = client(login.http(), place, before, &authority, Some(&redirect_uri)).await?;
    let again = |why: String| Failure::new(why, "try again");
    let state = pkce::unguessable().map_err(again)?;
    let verifier = pkce::unguessable().map_err(again)?;
    let mut address = endpoint;
    let resource_asked = Found::resource_for(place, resource.as_deref());
    {
        let mut query = address.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &client.id)
            .append_pair("redirect_uri", redirect_uri.as_str())
            .append_pair("state", &state)
            .append_pair("code_challenge", &pkce::challenge(&verifier))
            .append_pair("code_challenge_method", "S256");
        if !asked.is_empty() {
            query.append_pair("scope", &asked.join(" "));
        }
        // A refresh token is given by some to those alone who ask to be asked (OpenID Connect §11).
        let own = &place.oauth.authorization_parameters;
        if asked.iter().any(|scope| scope == "offline_access")
            && !own.iter().any(|(name, _)| name == "prompt")
        {
            query.append_pair("prompt", "consent");
        }
        if let Some(resource) = &resource_asked {
            query.append_pair("resource", resource);
        }
        query.extend_pairs(own);
    }
    let record = kept(login, authority, resource, client, before).await;
    let before = before.map(|before| before.login).unwrap_or_default();
    let attempt = Attempt::new((state, verifier), asked, resource_asked, record, before);
    let waiting = Waiting::new(login, attempt);
    waiting.watch_others();
    if let Some(listener) = listener {
        listener.serve(&waiting);
    }
    Ok(Pending::new(waiting, address, None))
}
