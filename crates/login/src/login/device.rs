//! Logins on another device: a person types a code there, and we ask until it is done (RFC 8628).

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::time::{Instant, sleep};

use crate::login::attempt::{kept, page};
use crate::login::begun::Attempt;
use crate::login::discovery::Found;
use crate::login::pending::{Pending, Waiting};
use crate::login::pkce;
use crate::login::place::{Failure, Place};
use crate::login::record::Record;
use crate::login::register::client;
use crate::login::sign_in::Login;
use crate::login::token::{self, Refusal};

const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// The pause between two questions where none is named, and what is added when that was too short (RFC 8628 §3.5).
const PAUSE: u64 = 5;
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
const AGAIN: &str = "sign in again";

/// An answer of the device authorization endpoint (RFC 8628 §3.2).
#[derive(Deserialize)]
struct Device {
    #[serde(rename = "device_code")]
    code: String,
    user_code: String,
    // Some call it so, as a draft did.
    #[serde(alias = "verification_url")]
    verification_uri: String,
    verification_uri_complete: Option<String>,
    expires_in: u64,
    interval: Option<u64>,
}

/// Begins a login on another device.
pub(crate) async fn begin(
    login: &Arc<Login>,
    found: Found,
    asked: Vec<String>,
    before: Option<&Record>,
) -> Result<Pending, Failure> {
    let place: &Place = &login.place;
    let Found { authority, resource, .. } = found;
    let Some(endpoint) = authority.device_authorization_endpoint.clone() else {
        let reason = "its authorization server has no sign-in on another device (RFC 8628)";
        return Err(Failure::new(reason, "take `oauth.grant` out of the server's entry"));
    };
    let client = client(login.http(), place, before, &authority, None).await?;
    let (scope, named) = (asked.join(" "), Found::resource_for(place, resource.as_deref()));
    let mut fields = Vec::new();
    if !scope.is_empty() {
        fields.push(("scope", scope.as_str()));
    }
    fields.extend(named.as_deref().map(|resource| ("resource", resource)));
    let failed = |why: String| Failure::new(format!("no sign-in could be begun: {why}"), AGAIN);
    let answer = token::post(login.http(), &endpoint, &client, None, fields).await;
    let answer = answer.map_err(|refusal| failed(refusal.to_string()))?;
    let device: Device = serde_json::from_slice(&answer.body)
        .map_err(|_| failed("the authorization server answers with no code".to_owned()))?;
    let address = device.verification_uri_complete.as_deref().and_then(page);
    let address = address.or_else(|| page(&device.verification_uri));
    let address =
        address.ok_or_else(|| failed("there is no page to type the code on".to_owned()))?;
    let record = kept(login, authority, resource, client, before).await;
    let (state, verifier) = (pkce::unguessable().map_err(failed)?, String::new());
    let before = before.map(|before| before.login).unwrap_or_default();
    let attempt = Attempt::new((state, verifier), asked, None, record, before);
    let waiting = Waiting::new(login, attempt);
    waiting.watch_others();
    let (code, own) = (token::plain(&device.user_code), Arc::clone(&waiting));
    waiting.spawn_until_ended(async move {
        let outcome = poll(&own, &device).await;
        own.finish(outcome);
    });
    Ok(Pending::new(waiting, address, Some(code)))
}

/// Asks until somebody has agreed, or declined, or the code is good no more.
async fn poll(waiting: &Waiting, device: &Device) -> Result<(), Failure> {
    let (login, record) = (waiting.login(), &waiting.attempt().record);
    let (http, endpoint) = (login.http(), &record.authority.token_endpoint);
    let resource = Found::resource_for(&login.place, record.resource.as_deref());
    let mut pause = Duration::from_secs(device.interval.unwrap_or(PAUSE).max(1));
    let deadline = Instant::now() + Duration::from_secs(device.expires_in);
    loop {
        sleep(pause.min(LONGEST_PAUSE)).await;
        if Instant::now() >= deadline {
            return Err(Failure::new("nobody has typed the code in time", AGAIN));
        }
        let mut fields = vec![("grant_type", GRANT), ("device_code", device.code.as_str())];
        fields.extend(resource.as_deref().map(|resource| ("resource", resource)));
        match token::ask(http, endpoint, &record.client, None, fields).await {
            Ok(granted) => return waiting.got(granted).await,
            Err(refusal) if refusal.is("authorization_pending") => {}
            Err(refusal) if refusal.is("slow_down") => pause += Duration::from_secs(PAUSE),
            Err(refusal) if refusal.is("access_denied") => {
                return Err(Failure::new("you declined", AGAIN));
            }
            Err(refusal) if refusal.is("expired_token") => {
                return Err(Failure::new("nobody has typed the code in time", AGAIN));
            }
            // It may come back (RFC 8628 §3.5).
            Err(Refusal::ForNow { .. }) => pause *= 2,
            Err(refusal) => {
                return Err(Failure::new(format!("no token was given: {refusal}"), AGAIN));
            }
        }
    }
}
