//! `auth login`: a sign-in in a browser, here or elsewhere.

use std::process::ExitCode;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

use crate::cli::auth::{Which, browser, failed, places, whole_name, with_logins};
use crate::cli::error::Error;
use crate::cli::{Global, print};
use crate::login::{Back, Failure, Logins, Pending, Place, SignIn, Standing, WANTS_NONE};
use crate::settings::Grant;

/// The sign-in that is wanted.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    which: Which,
    /// Ask for this scope, in place of those that the server names; may be given more than once
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// Do not open a browser
    #[arg(long)]
    no_browser: bool,
}

/// Signs in; fails where that does not come about.
pub(super) fn run(global: &Global, args: &Args) -> Result<ExitCode, Error> {
    let config = global.load()?.config;
    let mut places = places(global, &config, &args.which)?;
    if !args.scopes.is_empty() {
        for place in &mut places {
            place.oauth.scopes = Some(args.scopes.clone());
        }
    }
    let is_one = args.which.server.is_some();
    with_logins(global, &config, async |logins| {
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        let mut failures = Vec::new();
        let mut any = false;
        for place in places {
            let name = whole_name(&place);
            match sign_in(logins, place.clone(), &mut lines, args, is_one).await? {
                Came::SignedIn => {
                    any = true;
                    print::data(&format!("signed in at {name}"))?;
                }
                Came::WasSignedIn => {
                    any = true;
                    print::note(&format!("signed in at {name} already"));
                }
                Came::NotWanted => {}
                Came::Failed(failure) if is_one => return Err(failed(&place, &failure)),
                Came::Failed(failure) => {
                    print::error(&failed(&place, &failure));
                    failures.push(name);
                }
            }
        }
        if !failures.is_empty() {
            return Ok(ExitCode::FAILURE);
        }
        if !any {
            print::note(&"no server of the configuration asks for a sign-in");
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// The outcome at one server.
enum Came {
    SignedIn,
    WasSignedIn,
    NotWanted,
    Failed(Failure),
}

async fn sign_in(
    logins: &Arc<Logins>,
    place: Place,
    lines: &mut Lines<BufReader<Stdin>>,
    args: &Args,
    is_one: bool,
) -> Result<Came, Error> {
    let needs_nobody = !matches!(place.oauth.grant, Grant::Browser | Grant::Device);
    let login = logins.at(place);
    if !is_one && matches!(login.standing().await, Standing::SignedIn { .. }) {
        return Ok(Came::WasSignedIn);
    }
    if needs_nobody {
        return Ok(login.get().await.map_or_else(Came::Failed, |()| Came::SignedIn));
    }
    let pending = match login.begin(Back::Listener).await {
        Ok(pending) => pending,
        Err(failure) if failure.reason == WANTS_NONE && !is_one => return Ok(Came::NotWanted),
        Err(failure) => return Ok(Came::Failed(failure)),
    };
    show(&login, &pending, args.no_browser)?;
    Ok(agreed(&pending, lines).await.map_or_else(Came::Failed, |()| Came::SignedIn))
}

/// Says what there is to do.
fn show(login: &SignIn, pending: &Pending, no_browser: bool) -> Result<(), Error> {
    let name = whole_name(login.place());
    let has_opened = !no_browser && browser::open(pending.address());
    let what = if has_opened { "in the browser that opens, or at" } else { "at" };
    print::note(&format!("to sign in at {name}, agree {what}:"));
    print::data(pending.address())?;
    match pending.code() {
        Some(code) => print::note(&format!("and type this code there: {code}")),
        None => print::note(
            &"waiting; where the browser cannot reach this machine, paste the address here that it ends at",
        ),
    }
    Ok(())
}

/// Waits until it is done, and takes addresses from standard input meanwhile.
async fn agreed(pending: &Pending, lines: &mut Lines<BufReader<Stdin>>) -> Result<(), Failure> {
    let done = pending.done();
    tokio::pin!(done);
    let mut is_over = false;
    loop {
        let line = tokio::select! {
            done = &mut done => return done,
            line = lines.next_line(), if !is_over => line,
        };
        let Ok(Some(line)) = line else {
            // Nobody pastes anything any more; the browser may still come.
            is_over = true;
            continue;
        };
        if line.trim().is_empty() {
            continue;
        }
        if let Err(failure) = pending.pasted(&line).await {
            print::note(&format!("{}; {}", failure.reason, failure.hint));
        }
    }
}
