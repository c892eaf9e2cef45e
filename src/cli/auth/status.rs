//! `auth status`: where one is signed in.

use std::process::ExitCode;
use std::time::SystemTime;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;

use crate::cli::auth::store::where_they_are;
use crate::cli::auth::{Which, others, places, with_logins};
use crate::cli::error::Error;
use crate::cli::table::{Align, Table};
use crate::cli::{Global, print};
use crate::login::{Place, Standing};

/// How it stands at one server.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    server: String,
    /// The agent whose own it is; none for this machine's.
    account: Option<String>,
    state: &'static str,
    issuer: Option<String>,
    scopes: Vec<String>,
    expires: Option<String>,
    is_renewable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(skip)]
    is_over: bool,
}

impl Row {
    fn new(place: Place, standing: Standing) -> Self {
        let mut row = Self {
            server: place.server,
            account: place.account,
            state: "not_asked",
            issuer: None,
            scopes: Vec::new(),
            expires: None,
            is_renewable: false,
            why: None,
            is_over: false,
        };
        match standing {
            Standing::NotAsked => {}
            Standing::SignedIn { issuer, scopes, expires, is_renewable } => {
                row.state = "signed_in";
                (row.issuer, row.scopes, row.is_renewable) = (issuer, scopes, is_renewable);
                row.is_over = expires.is_some_and(|expires| expires <= SystemTime::now());
                row.expires = expires.map(|expires| {
                    DateTime::<Utc>::from(expires).to_rfc3339_opts(SecondsFormat::Secs, true)
                });
            }
            Standing::Wanted { why } => (row.state, row.why) = ("wanted", Some(why)),
        }
        row
    }
}

/// Shows how it stands; no server is asked.
pub(super) fn run(global: &Global, which: &Which, json: bool) -> Result<ExitCode, Error> {
    let config = global.read()?.map_err(Error::config)?.config;
    let places = places(global, &config, which)?;
    let rows = with_logins(global, &config, async |logins| {
        let mut rows = Vec::new();
        let others = others(logins, which, &places).await?;
        for place in places {
            let login = logins.at(place);
            let standing = login.standing().await;
            rows.push(Row::new(login.place().clone(), standing));
        }
        // Agents' own, and those of servers that the configuration does not have any more.
        rows.extend(others.into_iter().map(|(place, standing)| Row::new(place, standing)));
        Ok(rows)
    })?;
    if json {
        print::json(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        print::note(&"no server of the configuration is one where somebody could sign in");
        return Ok(ExitCode::SUCCESS);
    }
    print::data(&table(rows))?;
    print::note(&where_they_are(global, Some(&config))?);
    Ok(ExitCode::SUCCESS)
}

fn table(rows: Vec<Row>) -> Table {
    let columns = ["server", "account", "state", "issuer", "scopes", "expires"];
    let mut table = Table::new(columns.map(|column| (column, Align::Left)));
    for row in rows {
        let state = match (row.state, &row.why) {
            ("signed_in", _) => "signed in".to_owned(),
            ("wanted", Some(why)) => format!("wants sign-in: {why}"),
            _ => "not asked".to_owned(),
        };
        let expires = match (&row.expires, row.is_renewable, row.is_over) {
            (None, ..) => String::new(),
            (Some(_), true, true) => "renewed when used".to_owned(),
            (Some(at), true, false) => format!("{at}, then renewed"),
            (Some(at), false, true) => format!("{at}, over"),
            (Some(at), false, false) => at.clone(),
        };
        table.row([
            row.server,
            row.account.unwrap_or_else(|| "this machine's".to_owned()),
            state,
            row.issuer.unwrap_or_default(),
            row.scopes.join(" "),
            expires,
        ]);
    }
    table
}
