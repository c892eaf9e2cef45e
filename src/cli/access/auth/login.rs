//! `auth login`: signs in with a browser, on this machine or another one.

use std::process::ExitCode;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

use crate::cli::access::auth::{
    LoginSelector, ServerArg, browser, display_name, failed, matching_logins, with_logins,
};
use crate::cli::args::GlobalArgs;
use crate::cli::output::{CommandError, print};
use mcp_workbench_login::{
    LoginError, LoginRegistry, LoginTarget, OAuthLogin, PendingLogin, RedirectTarget, SignInStatus,
};
use mcp_workbench_settings::GrantType;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) server: ServerArg,
    /// Request this scope instead of the server's (repeatable)
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// Print the URL without opening a browser
    #[arg(long)]
    no_browser: bool,
}

pub(super) fn run(
    global: &GlobalArgs,
    args: &Args,
    which: &LoginSelector,
) -> Result<ExitCode, CommandError> {
    let config = global.load()?.config;
    let mut places = matching_logins(global, &config, which)?;
    if !args.scopes.is_empty() {
        for target in &mut places {
            target.oauth.scopes = Some(args.scopes.clone());
        }
    }
    let is_one = which.server.is_some();
    with_logins(global, &config, async |logins| {
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        let mut failures = Vec::new();
        let mut any = false;
        for target in places {
            let name = display_name(&target);
            match sign_in(logins, target.clone(), &mut lines, args, is_one).await? {
                LoginOutcome::SignedIn => {
                    any = true;
                    print::data(&format!("signed in to {name}"))?;
                }
                LoginOutcome::AlreadySignedIn => {
                    any = true;
                    print::note(&format!("already signed in to {name}"));
                }
                LoginOutcome::NotRequired => {}
                LoginOutcome::Failed(failure) if is_one => return Err(failed(&target, &failure)),
                LoginOutcome::Failed(failure) => {
                    print::note(&failed(&target, &failure));
                    failures.push(name);
                }
            }
        }
        if !failures.is_empty() {
            return Ok(ExitCode::FAILURE);
        }
        if !any {
            print::note(&"no configured server requires sign-in");
        }
        Ok(ExitCode::SUCCESS)
    })
}

enum LoginOutcome {
    SignedIn,
    AlreadySignedIn,
    NotRequired,
    Failed(LoginError),
}

async fn sign_in(
    logins: &Arc<LoginRegistry>,
    target: LoginTarget,
    lines: &mut Lines<BufReader<Stdin>>,
    args: &Args,
    is_one: bool,
) -> Result<LoginOutcome, CommandError> {
    let needs_nobody =
        !matches!(target.oauth.grant, GrantType::AuthorizationCode | GrantType::DeviceCode);
    let login = logins.get_or_create(target);
    if !is_one && matches!(login.status().await, SignInStatus::SignedIn { .. }) {
        return Ok(LoginOutcome::AlreadySignedIn);
    }
    if needs_nobody {
        return Ok(login
            .fetch_token()
            .await
            .map_or_else(LoginOutcome::Failed, |()| LoginOutcome::SignedIn));
    }
    let pending = match login.begin(RedirectTarget::Listener).await {
        Ok(pending) => pending,
        Err(failure) if failure.is_not_required && !is_one => {
            return Ok(LoginOutcome::NotRequired);
        }
        Err(failure) => return Ok(LoginOutcome::Failed(failure)),
    };
    show(&login, &pending, args.no_browser)?;
    Ok(wait_for_consent(&pending, lines)
        .await
        .map_or_else(LoginOutcome::Failed, |()| LoginOutcome::SignedIn))
}

fn show(login: &OAuthLogin, pending: &PendingLogin, no_browser: bool) -> Result<(), CommandError> {
    let name = display_name(login.target());
    let has_opened = !no_browser && browser::open(pending.address());
    let how = if has_opened { "use the browser that opens, or open" } else { "open" };
    print::note(&format!("to sign in to {name}, {how} this URL:"));
    print::data(pending.address())?;
    match pending.user_code() {
        Some(code) => print::note(&format!("and enter this code: {code}")),
        None => print::note(
            &"waiting for the browser; if it runs on another machine, paste the URL of its last page here",
        ),
    }
    Ok(())
}

/// Waits for the user's consent. Meanwhile, accepts pasted redirect URLs on stdin.
async fn wait_for_consent(
    pending: &PendingLogin,
    lines: &mut Lines<BufReader<Stdin>>,
) -> Result<(), LoginError> {
    let done = pending.done();
    tokio::pin!(done);
    let mut is_over = false;
    loop {
        let line = tokio::select! {
            done = &mut done => return done,
            line = lines.next_line(), if !is_over => line,
        };
        let Ok(Some(line)) = line else {
            // Stdin is closed. The browser may still reach the listener.
            is_over = true;
            continue;
        };
        if line.trim().is_empty() {
            continue;
        }
        if let Err(failure) = pending.submit_callback_url(&line).await {
            print::note(&format!("{}; {}", failure.reason, failure.hint));
        }
    }
}
