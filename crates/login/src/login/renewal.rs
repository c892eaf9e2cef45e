//! Renewals: getting another token without anybody, once for all who wait, in this process and others.
//!
//! *Theory of operation.* A renewal is a task of its own, which goes on when nobody waits any more: the old refresh
//! token may be used up already. It holds the lock of the record, reads the record again (another process may have
//! been faster), asks, keeps what it got, and only then lets it be used. A refresh token is given up only when the
//! authorization server says that it is good no more, and it is still the one that is kept.

use std::sync::Arc;
use std::time::Duration;

use crate::login::discovery::Found;
use crate::login::machine;
use crate::login::place::Told;
use crate::login::record::{Record, Token};
use crate::login::register;
use crate::login::sign_in::{Login, Renewal};
use crate::login::token::{self, Refusal};

/// The pause after an authorization server could not be reached, and the longest that it may ask for.
const PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// A refusal of all the world but a person.
struct Failed {
    renewal: Renewal,
    pause: Duration,
}

impl Failed {
    fn ended(why: impl Into<String>) -> Self {
        Self { renewal: Renewal::Ended(why.into()), pause: PAUSE }
    }
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        let why = format!("the token could not be renewed: {refusal}");
        let pause = match refusal {
            Refusal::ForNow { after: Some(after), .. } => after.clamp(PAUSE, LONGEST_PAUSE),
            Refusal::ForNow { .. } | Refusal::Final { .. } => PAUSE,
        };
        Self { renewal: Renewal::Trouble(why), pause }
    }
}

/// Gets a token that is another than `stale`, and not about to end. With others who want the same this is done once.
pub(crate) async fn renew(login: &Arc<Login>, stale: Option<&str>) -> Renewal {
    let is_fresh =
        |record: &Record| record.token.as_ref().is_some_and(|token| is_other(token, stale));
    if login.known().is_some_and(|record| is_fresh(&record)) {
        return Renewal::Fresh;
    }
    if let Some(renewal) = login.is_quiet() {
        return renewal;
    }
    let mut renewal = login.renewal(|sender| {
        let (own, stale) = (Arc::clone(login), stale.map(str::to_owned));
        login.shared.spawn_token(async move {
            let (renewal, pause) = match run(&own, stale.as_deref()).await {
                Ok(()) => (Renewal::Fresh, PAUSE),
                Err(failed) => (failed.renewal, failed.pause),
            };
            own.renewed(&renewal, pause);
            sender.send_replace(Some(renewal));
        });
    });
    let done = renewal.wait_for(Option::is_some).await.ok().and_then(|done| done.clone());
    done.unwrap_or_else(|| Renewal::Trouble("the renewal was cut off".to_owned()))
}

/// Returns `true` for a token that can be used in the place of `stale`.
fn is_other(token: &Token, stale: Option<&str>) -> bool {
    stale != Some(token.value.as_str()) && !token.is_ending()
}

async fn run(login: &Arc<Login>, stale: Option<&str>) -> Result<(), Failed> {
    let Some(_guard) = login.shared.lock(&login.key).await else {
        let why = "another process has been renewing the token for too long".to_owned();
        return Err(Failed { renewal: Renewal::Trouble(why), pause: PAUSE });
    };
    // A token that somebody else has used already must not be used again.
    let record = match login.try_reload().await {
        Ok(record) => record,
        // A token that is got without anybody uses up none.
        Err(_) if login.is_machine() && login.shared.is_shared() => login.known(),
        Err(_) => {
            let why = login.shared.why_none();
            return Err(Failed { renewal: Renewal::Trouble(why), pause: PAUSE });
        }
    };
    if record.as_ref().and_then(|record| record.token.as_ref()).is_some_and(|t| is_other(t, stale))
    {
        return Ok(());
    }
    if login.is_machine() {
        let record = machine::obtain(login, record.as_deref()).await.map_err(|failed| Failed {
            renewal: if failed.is_final {
                Renewal::Ended(failed.why)
            } else {
                Renewal::Trouble(failed.why)
            },
            pause: PAUSE,
        })?;
        login.keep(record).await;
        login.shared.tell(Told::Renewed(&login.place));
        return Ok(());
    }
    let record = record.ok_or_else(|| Failed::ended("nobody has signed in"))?;
    if let Some(renewed) = refresh(login, &record).await? {
        login.keep(renewed).await;
        login.shared.tell(Told::Renewed(&login.place));
    }
    Ok(())
}

/// Asks for another token with the refresh token (RFC 6749 §6); `None`: somebody else has got one meanwhile.
async fn refresh(login: &Login, record: &Record) -> Result<Option<Record>, Failed> {
    let Some(refresh_token) = &record.refresh_token else {
        return Err(Failed::ended("the login has ended"));
    };
    let client = register::current(&login.place, record).map_err(Failed::ended)?;
    let resource = Found::resource_for(&login.place, record.resource.as_deref());
    let mut fields = vec![("grant_type", "refresh_token"), ("refresh_token", refresh_token)];
    fields.extend(resource.as_deref().map(|resource| ("resource", resource)));
    let endpoint = &record.authority.token_endpoint;
    let answer = token::ask(login.http(), endpoint, &client, None, fields).await;
    let mut renewed = record.clone();
    match answer {
        Ok(granted) => {
            renewed.scopes = granted.scopes(&record.scopes);
            renewed.token = Some(Token::new(granted.access_token, granted.expires_in));
            // One that is not replaced stays good.
            renewed.refresh_token = granted.refresh_token.or(renewed.refresh_token);
            Ok(Some(renewed))
        }
        Err(refusal) if refusal.is("invalid_grant") => {
            // The lock is held, but not everybody who writes may know of locks.
            let kept = login.reload().await;
            let kept = kept.filter(|kept| kept.refresh_token.as_ref() != Some(refresh_token));
            if let Some(kept) = kept {
                let stale = record.token.as_ref().map(|token| token.value.as_str());
                if kept.token.as_ref().is_some_and(|token| is_other(token, stale)) {
                    return Ok(None);
                }
                return Err(Failed::ended("the login has ended"));
            }
            renewed.refresh_token = None;
            login.keep(renewed).await;
            Err(Failed::ended("the login has ended: the authorization server has revoked it"))
        }
        Err(refusal) if refusal.is("invalid_client") || refusal.is("unauthorized_client") => {
            renewed.client.is_refused = true;
            login.keep(renewed).await;
            Err(Failed::ended(format!(
                "the authorization server does not know us any more: {refusal}"
            )))
        }
        Err(refusal) => Err(refusal.into()),
    }
}
