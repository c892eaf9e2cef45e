//! `auth logout`: the end of logins.

use std::process::ExitCode;
use std::sync::Arc;

use crate::cli::auth::{Which, failed, others, places, whole_name, with_logins};
use crate::cli::error::Error;
use crate::cli::logins::command;
use crate::cli::{Global, print};
use crate::login::{Logins, Place, Standing};

/// Signs out; fails where it is not said which of several logins is meant.
pub(super) fn run(global: &Global, which: &Which) -> Result<ExitCode, Error> {
    let config = global.read()?.map_err(Error::config)?.config;
    let places = places(global, &config, which);
    with_logins(global, &config, async |logins| {
        // A server that the configuration does not have any more may have been signed in at.
        let known = places.as_deref().unwrap_or_default();
        let others = others(logins, which, known).await?;
        let places = match places {
            Err(error) if others.is_empty() => return Err(error),
            places => places.unwrap_or_default(),
        };
        let mut any = false;
        for place in places {
            any |= sign_out(logins, place).await?;
        }
        let others: Vec<Place> = others.into_iter().filter(is_login).map(|(it, _)| it).collect();
        match (&which.server, &others[..]) {
            (Some(_), []) => {}
            // What is left are agents' own, and whoever means one of many says so.
            (Some(_), [_, ..]) if any => {
                let rest = others.iter().map(said).collect::<Vec<_>>().join(", ");
                print::note(&format!("agents are signed in there for themselves: {rest}"));
            }
            (Some(server), [_, _, ..]) => {
                let all = others.iter().map(said).collect::<Vec<_>>().join(", ");
                return Err(Error::failed(format!("`{server}` has several logins"))
                    .hint(format!("say which one is to end: {all}")));
            }
            (None, _) | (Some(_), [_]) => {
                for place in others {
                    any |= sign_out(logins, place).await?;
                }
            }
        }
        if !any {
            print::note(&"nobody was signed in there");
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Returns `true` if there is more than a client that was registered once.
fn is_login((_, standing): &(Place, Standing)) -> bool {
    matches!(standing, Standing::SignedIn { .. })
}

/// The command that ends a login.
fn said(place: &Place) -> String {
    format!("`{}`", command("logout", &place.server, place.account.as_deref()))
}

async fn sign_out(logins: &Arc<Logins>, place: Place) -> Result<bool, Error> {
    let name = whole_name(&place);
    let login = logins.at(place);
    let had = login.sign_out().await.map_err(|failure| failed(login.place(), &failure))?;
    if had {
        print::data(&format!("signed out at {name}"))?;
    }
    Ok(had)
}
