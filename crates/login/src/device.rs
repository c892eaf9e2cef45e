//! Device authorization grant (RFC 8628): the user enters a code on another device while the token
//! endpoint is polled.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::time::{Instant, sleep};

use crate::attempt::{new_record, page};
use crate::attempt_record::{AttemptRecord, TIMEOUT};
use crate::client_registration::client;
use crate::discovery::DiscoveryResult;
use crate::login_state::LoginState;
use crate::pending::{LoginAttempt, PendingLogin};
use crate::pkce;
use crate::record::LoginRecord;
use crate::target::{LoginError, LoginTarget};
use crate::token::{self, TokenError, seconds};

const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// Default polling interval, and the increment for `slow_down`, in seconds (RFC 8628 §3.5).
const PAUSE: u64 = 5;
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
const AGAIN: &str = "sign in again";

/// A device authorization response (RFC 8628 §3.2).
#[derive(Deserialize)]
struct Device {
    #[serde(rename = "device_code")]
    code: String,
    user_code: String,
    // Some servers use the name of an early draft.
    #[serde(alias = "verification_url")]
    verification_uri: String,
    verification_uri_complete: Option<String>,
    #[serde(default, deserialize_with = "seconds")]
    expires_in: Option<u64>,
    #[serde(default, deserialize_with = "seconds")]
    interval: Option<u64>,
}

impl Device {
    /// Returns the polling interval, and the lifetime of the code.
    fn times(&self) -> (Duration, Duration) {
        let pause = Duration::from_secs(self.interval.unwrap_or(PAUSE));
        let lifetime = self.expires_in.map_or(TIMEOUT, Duration::from_secs);
        // The attempt itself ends after 5 min.
        (pause.clamp(SHORTEST_PAUSE, LONGEST_PAUSE), lifetime.min(TIMEOUT))
    }
}

pub(crate) async fn begin(
    login: &Arc<LoginState>,
    found: DiscoveryResult,
    asked: Vec<String>,
    before: Option<&LoginRecord>,
) -> Result<PendingLogin, LoginError> {
    let target: &LoginTarget = &login.target;
    let DiscoveryResult { authority, resource, .. } = found;
    let Some(endpoint) = authority.device_authorization_endpoint.clone() else {
        let reason = "its authorization server does not support the device grant (RFC 8628)";
        return Err(LoginError::new(reason, "remove `oauth.grant` from the server's entry"));
    };
    let client = client(login.http(), target, before, &authority, None).await?;
    let (scope, named) =
        (asked.join(" "), DiscoveryResult::resource_for(target, resource.as_deref()));
    let mut fields = Vec::new();
    if !scope.is_empty() {
        fields.push(("scope", scope.as_str()));
    }
    fields.extend(named.as_deref().map(|resource| ("resource", resource)));
    let failed = |why: String| LoginError::new(format!("cannot start the sign-in: {why}"), AGAIN);
    let answer = token::post(login.http(), &endpoint, &client, None, fields).await;
    let answer = answer.map_err(|refusal| failed(refusal.to_string()))?;
    let device: Device = serde_json::from_slice(&answer.body)
        .map_err(|_| failed("the authorization server returned no device code".to_owned()))?;
    login.learn([device.code.clone()]);
    let address = device.verification_uri_complete.as_deref().and_then(page);
    let address = address.or_else(|| page(&device.verification_uri));
    let address = address.ok_or_else(|| {
        failed("the authorization server returned no verification URL".to_owned())
    })?;
    let record = new_record(login, authority, resource, client, before).await;
    let (state, verifier) = (pkce::unguessable().map_err(failed)?, String::new());
    let before = before.map(|before| before.epoch).unwrap_or_default();
    let attempt = AttemptRecord::new((state, verifier), asked, None, record, before);
    let waiting = LoginAttempt::new(login, attempt);
    waiting.watch_others();
    let (code, own) = (token::sanitize_excerpt(&device.user_code), Arc::clone(&waiting));
    waiting.spawn_until_ended(async move {
        let outcome = poll(&own, &device).await;
        own.finish(outcome);
    });
    Ok(PendingLogin::new(waiting, address, Some(code)))
}

/// Polls until the user has agreed or declined, or the code has expired.
async fn poll(waiting: &LoginAttempt, device: &Device) -> Result<(), LoginError> {
    let (login, record) = (waiting.login(), &waiting.attempt().record);
    let (http, endpoint) = (login.http(), &record.authority.token_endpoint);
    let resource = DiscoveryResult::resource_for(&login.target, record.resource.as_deref());
    let (mut pause, lifetime) = device.times();
    let deadline = Instant::now() + lifetime;
    loop {
        sleep(pause).await;
        if Instant::now() >= deadline {
            return Err(LoginError::new("the code has expired", AGAIN));
        }
        let mut fields = vec![("grant_type", GRANT), ("device_code", device.code.as_str())];
        fields.extend(resource.as_deref().map(|resource| ("resource", resource)));
        match token::request_token(http, endpoint, &record.client, None, fields).await {
            Ok(granted) => return waiting.store_tokens(granted).await,
            Err(refusal) if refusal.is("authorization_pending") => {}
            Err(refusal) if refusal.is("slow_down") => {
                pause = (pause + Duration::from_secs(PAUSE)).min(LONGEST_PAUSE);
            }
            Err(refusal) if refusal.is("access_denied") => {
                return Err(LoginError::new("access denied", AGAIN));
            }
            Err(refusal) if refusal.is("expired_token") => {
                return Err(LoginError::new("the code has expired", AGAIN));
            }
            // Back off exponentially after transient errors (RFC 8628 §3.5).
            Err(TokenError::Transient { .. }) => pause = (pause * 2).min(LONGEST_PAUSE),
            Err(refusal) => {
                return Err(LoginError::new(format!("no token was issued: {refusal}"), AGAIN));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn hostile_times_are_clamped() {
        for (expires_in, interval, pause, lifetime) in [
            (json!(u64::MAX), json!(u64::MAX), 60, 300),
            (json!(1_u64 << 63), json!(1e300), 60, 300),
            (json!(-1), json!(-1), 1, 0),
            (json!("600"), json!("7"), 7, 300),
            (json!(30.5), json!(0.5), 1, 30),
            (json!(null), json!(null), 5, 300),
            (json!([]), json!({}), 5, 300),
        ] {
            let device = json!({
                "device_code": "c", "user_code": "u", "verification_uri": "v",
                "expires_in": expires_in, "interval": interval,
            });
            let device: Device = serde_json::from_value(device).unwrap();
            let expected = [pause, lifetime].map(Duration::from_secs);
            assert_eq!(device.times(), expected.into(), "{expires_in} {interval}");
        }
    }
}
