//! `auth status`: shows where you are signed in.

use std::process::ExitCode;
use std::time::SystemTime;

use chrono::SecondsFormat;
use serde::Serialize;

use crate::cli::access::auth::store::store_description;
use crate::cli::access::auth::{LoginSelector, matching_logins, other_stored_logins, with_logins};
use crate::cli::args::GlobalArgs;
use crate::cli::output::{CommandError, Table, format_time, print};
use crate::cli::servers::login_summary::LoginState;
use mcp_workbench_login::{LoginTarget, SignInStatus};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LoginStatusRow {
    server: String,
    /// The agent that the login belongs to; `None` for the machine's own login.
    account: Option<String>,
    state: LoginState,
    issuer: Option<String>,
    scopes: Vec<String>,
    expires: Option<String>,
    is_renewable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip)]
    is_expired: bool,
}

impl LoginStatusRow {
    fn new(target: LoginTarget, standing: SignInStatus) -> Self {
        let mut row = Self {
            server: target.server,
            account: target.account,
            state: LoginState::Unknown,
            issuer: None,
            scopes: Vec::new(),
            expires: None,
            is_renewable: false,
            reason: None,
            is_expired: false,
        };
        match standing {
            SignInStatus::NotAsked => {}
            SignInStatus::SignedIn { issuer, scopes, expires, is_renewable } => {
                row.state = LoginState::SignedIn;
                (row.issuer, row.scopes, row.is_renewable) = (issuer, scopes, is_renewable);
                row.is_expired = expires.is_some_and(|expires| expires <= SystemTime::now());
                row.expires = expires.map(|expires| format_time(expires, SecondsFormat::Secs));
            }
            SignInStatus::SignInRequired { why } => {
                (row.state, row.reason) = (LoginState::SignInRequired, Some(why));
            }
        }
        row
    }
}

/// Prints the status of each login without contacting any server.
pub(super) fn run(
    global: &GlobalArgs,
    which: &LoginSelector,
    json: bool,
) -> Result<ExitCode, CommandError> {
    let config = global.read()?.config;
    let places = matching_logins(global, &config, which)?;
    let rows = with_logins(global, &config, async |logins| {
        let mut rows = Vec::new();
        let others = other_stored_logins(logins, which, &places).await?;
        for target in places {
            let login = logins.get_or_create(target);
            let standing = login.status().await;
            rows.push(LoginStatusRow::new(login.target().clone(), standing));
        }
        // Logins of individual agents, and of servers that are no longer configured.
        rows.extend(
            others.into_iter().map(|(target, standing)| LoginStatusRow::new(target, standing)),
        );
        Ok(rows)
    })?;
    if json {
        print::json(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        print::note(&"no configured server supports sign-in");
        return Ok(ExitCode::SUCCESS);
    }
    print::data(&table(rows))?;
    print::note(&store_description(global, Some(&config))?);
    Ok(ExitCode::SUCCESS)
}

fn table(rows: Vec<LoginStatusRow>) -> Table {
    let mut table = Table::left(["Server", "Account", "State", "Issuer", "Scopes", "Expires"]);
    for row in rows {
        let state = match (row.state, &row.reason) {
            (LoginState::SignedIn, _) => "signed in".to_owned(),
            (LoginState::SignInRequired, Some(reason)) => format!("sign-in required: {reason}"),
            _ => "unknown".to_owned(),
        };
        let expires = match (&row.expires, row.is_renewable, row.is_expired) {
            (None, ..) => String::new(),
            (Some(_), true, true) => "renews on next use".to_owned(),
            (Some(at), true, false) => format!("{at}, renews"),
            (Some(at), false, true) => format!("{at}, expired"),
            (Some(at), false, false) => at.clone(),
        };
        table.row([
            row.server,
            row.account.unwrap_or_else(|| "machine".to_owned()),
            state,
            row.issuer.unwrap_or_default(),
            row.scopes.join(" "),
            expires,
        ]);
    }
    table
}
