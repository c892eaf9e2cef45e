//! `auth logout`: signs out of servers and deletes their tokens.

use std::process::ExitCode;
use std::sync::Arc;

use crate::cli::access::auth::{
    LoginSelector, display_name, failed, matching_logins, other_stored_logins, with_logins,
};
use crate::cli::args::GlobalArgs;
use crate::cli::output::{CommandError, print};
use crate::cli::servers::login_summary::auth_command;
use mcp_workbench_login::{LoginRegistry, LoginTarget, SignInStatus};

/// Signs out. Fails if several agents' logins match, but not this machine's.
pub(super) fn run(global: &GlobalArgs, which: &LoginSelector) -> Result<ExitCode, CommandError> {
    let config = global.read()?.config;
    let places = matching_logins(global, &config, which);
    with_logins(global, &config, async |logins| {
        // The server may have left the configuration since.
        let known = places.as_deref().unwrap_or_default();
        let others = other_stored_logins(logins, which, known).await?;
        let places = match places {
            Err(error) if others.is_empty() => return Err(error),
            places => places.unwrap_or_default(),
        };
        let mut any = false;
        for target in places {
            any |= sign_out(logins, target).await?;
        }
        let others: Vec<LoginTarget> =
            others.into_iter().filter(is_login).map(|(it, _)| it).collect();
        match (&which.server, &others[..]) {
            (Some(_), []) => {}
            // Only logins of individual agents are left, which need `--agent`.
            (Some(_), [_, ..]) if any => {
                let rest = others.iter().map(logout_command).collect::<Vec<_>>().join(", ");
                print::note(&format!("agents have their own logins; to sign them out: {rest}"));
            }
            (Some(server), [_, _, ..]) => {
                let all = others.iter().map(logout_command).collect::<Vec<_>>().join(", ");
                return Err(CommandError::failed(format!("`{server}` has several logins"))
                    .with_hint(format!("choose one: {all}")));
            }
            (None, _) | (Some(_), [_]) => {
                for target in others {
                    any |= sign_out(logins, target).await?;
                }
            }
        }
        if !any {
            print::note(&"not signed in");
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Returns `true` if this is a login and not only a client registration.
fn is_login((_, standing): &(LoginTarget, SignInStatus)) -> bool {
    matches!(standing, SignInStatus::SignedIn { .. })
}

fn logout_command(target: &LoginTarget) -> String {
    format!("`{}`", auth_command("logout", &target.server, target.account.as_deref()))
}

async fn sign_out(logins: &Arc<LoginRegistry>, target: LoginTarget) -> Result<bool, CommandError> {
    let name = display_name(&target);
    let login = logins.get_or_create(target);
    let had = login.sign_out().await.map_err(|failure| failed(login.target(), &failure))?;
    if had {
        print::data(&format!("signed out of {name}"))?;
    }
    Ok(had)
}
