//! Renews tokens without the user, single-flight across all callers and processes.
//!
//! *Theory of operation.* A renewal is a task that continues after its callers have gone, because
//! the old refresh token can be spent already. It locks the record, reloads it (another process can
//! have been faster), requests a token, stores it, and only then lets callers use it. A refresh
//! token is deleted only if the authorization server rejects it and it is still the stored one.

use std::sync::Arc;
use std::time::Duration;

use crate::client_registration;
use crate::discovery::DiscoveryResult;
use crate::exchange;
use crate::login_state::{LoginState, RenewalOutcome};
use crate::non_interactive;
use crate::record::{LoginRecord, Token};
use crate::target::LoginEvent;
use crate::token::{self, TokenError};

/// Backoff after a failure, and the upper bound for `Retry-After`.
const PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// A failed renewal, and how long to back off before the next one.
struct RenewalError {
    renewal: RenewalOutcome,
    pause: Duration,
}

impl RenewalError {
    fn ended(why: impl Into<String>) -> Self {
        Self { renewal: RenewalOutcome::SignInRequired(why.into()), pause: PAUSE }
    }
}

impl From<TokenError> for RenewalError {
    fn from(refusal: TokenError) -> Self {
        let why = format!("token refresh failed: {refusal}");
        let pause = match refusal {
            TokenError::Transient { after: Some(after), .. } => after.clamp(PAUSE, LONGEST_PAUSE),
            TokenError::Transient { .. } | TokenError::Rejected { .. } => PAUSE,
        };
        Self { renewal: RenewalOutcome::Transient(why), pause }
    }
}

/// Obtains a token that differs from `stale` and isn't about to expire. Concurrent calls share one
/// request.
pub(crate) async fn renew(login: &Arc<LoginState>, stale: Option<&str>) -> RenewalOutcome {
    let is_fresh =
        |record: &LoginRecord| record.token.as_ref().is_some_and(|token| is_other(token, stale));
    if login.cached_record().is_some_and(|record| is_fresh(&record)) {
        return RenewalOutcome::Fresh;
    }
    if let Some(renewal) = login.backoff_outcome() {
        return renewal;
    }
    let mut renewal = login.renewal(|sender| {
        let (own, stale) = (Arc::clone(login), stale.map(str::to_owned));
        login.shared.spawn_critical(async move {
            let (renewal, pause) = match run(&own, stale.as_deref()).await {
                Ok(()) => (RenewalOutcome::Fresh, PAUSE),
                Err(failed) => (failed.renewal, failed.pause),
            };
            own.finish_renewal(&renewal, pause);
            sender.send_replace(Some(renewal));
        });
    });
    let done = renewal.wait_for(Option::is_some).await.ok().and_then(|done| done.clone());
    done.unwrap_or_else(|| RenewalOutcome::Transient("token refresh was interrupted".to_owned()))
}

/// Returns `true` if the token can replace `stale`.
fn is_other(token: &Token, stale: Option<&str>) -> bool {
    stale != Some(token.value.as_str()) && !token.is_ending()
}

async fn run(login: &Arc<LoginState>, stale: Option<&str>) -> Result<(), RenewalError> {
    if login.is_exchange() {
        // No other process has the token, so there is nothing to lock.
        let exchanged = exchange::obtain(login).await.map_err(|failed| RenewalError {
            renewal: RenewalOutcome::Transient(failed.failure.reason),
            pause: failed.after.unwrap_or(PAUSE).clamp(PAUSE, LONGEST_PAUSE),
        })?;
        login.save(exchanged).await;
        login.shared.tell(LoginEvent::Renewed(&login.target));
        return Ok(());
    }
    let Some(_guard) = login.shared.lock(&login.key).await else {
        let why = "timed out while another process refreshes the token".to_owned();
        return Err(RenewalError { renewal: RenewalOutcome::Transient(why), pause: PAUSE });
    };
    // Don't rely on the cached record: its refresh token can be spent already.
    let record = match login.try_reload().await {
        Ok(record) => record,
        // Non-interactive grants spend no refresh token, so the cached record is good enough.
        Err(_) if login.is_non_interactive() && login.shared.is_shared() => login.cached_record(),
        Err(_) => {
            let why = login.shared.missing_reason();
            return Err(RenewalError { renewal: RenewalOutcome::Transient(why), pause: PAUSE });
        }
    };
    if record.as_ref().and_then(|record| record.token.as_ref()).is_some_and(|t| is_other(t, stale))
    {
        return Ok(());
    }
    if login.is_non_interactive() {
        let record = non_interactive::obtain(login, record.as_deref()).await.map_err(|failed| {
            RenewalError {
                renewal: if failed.is_final {
                    RenewalOutcome::SignInRequired(failed.why)
                } else {
                    RenewalOutcome::Transient(failed.why)
                },
                pause: PAUSE,
            }
        })?;
        login.save(record).await;
        login.shared.tell(LoginEvent::Renewed(&login.target));
        return Ok(());
    }
    let record = record.ok_or_else(|| RenewalError::ended("not signed in"))?;
    if let Some(renewed) = refresh(login, &record).await? {
        login.save(renewed).await;
        login.shared.tell(LoginEvent::Renewed(&login.target));
    }
    Ok(())
}

/// Uses the refresh token (RFC 6749 §6). `None` if another process has stored a newer token.
async fn refresh(
    login: &LoginState,
    record: &LoginRecord,
) -> Result<Option<LoginRecord>, RenewalError> {
    let Some(refresh_token) = &record.refresh_token else {
        return Err(RenewalError::ended("the login has expired"));
    };
    let client =
        client_registration::current_client(&login.target, record).map_err(RenewalError::ended)?;
    let resource = DiscoveryResult::resource_for(&login.target, record.resource.as_deref());
    let mut fields = vec![("grant_type", "refresh_token"), ("refresh_token", refresh_token)];
    fields.extend(resource.as_deref().map(|resource| ("resource", resource)));
    let endpoint = &record.authority.token_endpoint;
    let answer = token::request_token(login.http(), endpoint, &client, None, fields).await;
    let mut renewed = record.clone();
    match answer {
        Ok(granted) => {
            login.learn(granted.secrets());
            renewed.scopes = granted.scopes(&record.scopes, login.target.oauth.max_scopes());
            renewed.token = Some(Token::new(granted.access_token, granted.expires_in));
            // A refresh token that isn't replaced stays valid.
            renewed.refresh_token = granted.refresh_token.or(renewed.refresh_token);
            Ok(Some(renewed))
        }
        Err(refusal) if refusal.is("invalid_grant") => {
            // The lock is held, but a writer that ignores locks can have replaced the record.
            let kept = login.reload().await;
            let kept = kept.filter(|kept| kept.refresh_token.as_ref() != Some(refresh_token));
            if let Some(kept) = kept {
                let stale = record.token.as_ref().map(|token| token.value.as_str());
                if kept.token.as_ref().is_some_and(|token| is_other(token, stale)) {
                    return Ok(None);
                }
                return Err(RenewalError::ended("the login has expired"));
            }
            renewed.refresh_token = None;
            login.save(renewed).await;
            Err(RenewalError::ended("the authorization server rejected the refresh token"))
        }
        Err(refusal) if refusal.is("invalid_client") || refusal.is("unauthorized_client") => {
            renewed.client.is_refused = true;
            login.save(renewed).await;
            Err(RenewalError::ended(format!(
                "the authorization server no longer recognizes the client: {refusal}"
            )))
        }
        Err(refusal) => Err(refusal.into()),
    }
}
