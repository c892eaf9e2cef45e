//! Logins that servers are used with, in the words of reports. No server is asked.

use std::sync::Arc;

use serde::Serialize;
use tokio_util::task::TaskTracker;

use crate::backend::Whose;
use crate::cli::Global;
use crate::login::{Keep, Logins, Place, Standing};
use crate::name::AgentName;
use crate::settings::{AccountOf, Launch, ServerConfig};

/// A login that a server is used with.
#[derive(Serialize)]
pub(crate) struct Used {
    /// The agent whose own it is; none for this machine's.
    pub(crate) account: Option<String>,
    /// How agents come that use it, where that decides: `stdio` or `http`.
    #[serde(skip_serializing_if = "Option::is_none")]
    over: Option<&'static str>,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    /// The command that signs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl Used {
    fn new(place: &Place, over: Option<&'static str>, standing: Standing) -> Self {
        let (state, why) = match standing {
            Standing::NotAsked => ("not_asked", None),
            Standing::SignedIn { .. } => ("signed_in", None),
            Standing::Wanted { why } => ("wanted", Some(why)),
        };
        let hint = (state != "signed_in")
            .then(|| command("login", &place.server, place.account.as_deref()));
        Self { account: place.account.clone(), over, state, why, hint }
    }

    /// Returns `true` if the server wants a sign-in, as far as is known.
    pub(crate) fn is_wanted(&self) -> bool {
        self.state == "wanted"
    }

    /// Returns `true` if the server has never asked for one.
    pub(crate) fn is_unknown(&self) -> bool {
        self.state == "not_asked"
    }

    /// Says on one line whose it is and how it stands.
    pub(crate) fn in_words(&self) -> String {
        let over = match self.over {
            Some("http") => "over HTTP ",
            Some(_) => "over stdio ",
            None => "",
        };
        let whose = match &self.account {
            Some(agent) => format!("that of agent `{agent}`"),
            None => "this machine's".to_owned(),
        };
        let hint = self.hint.as_ref().map(|hint| format!("; `{hint}` signs in"));
        let hint = hint.unwrap_or_default();
        let state = match (self.state, &self.why) {
            ("signed_in", _) => "signed in".to_owned(),
            ("wanted", Some(why)) => format!("wants sign-in ({why}){hint}"),
            _ => format!("none yet, as the server has not asked for one{hint}"),
        };
        format!("{over}{whose}: {state}")
    }
}

/// The command that does something with a login.
pub(crate) fn command(what: &str, server: &str, account: Option<&str>) -> String {
    match account {
        Some(agent) => format!("mcp-workbench auth {what} {server} --for {agent}"),
        None => format!("mcp-workbench auth {what} {server}"),
    }
}

/// Reads how it stands with logins.
pub(crate) struct Reader(Option<Arc<Logins>>);

impl Reader {
    pub(crate) fn new(global: &Global) -> Self {
        let logins = |keep: Keep| Logins::new(keep, TaskTracker::new(), |_| {});
        Self(global.logins().map(logins))
    }

    /// The login that an agent over stdio uses a server with; none where nobody signs in.
    pub(crate) async fn used(
        &self,
        server: &ServerConfig,
        agent: Option<&AgentName>,
    ) -> Option<Used> {
        let Launch::Http(launch) = &server.launch else { return None };
        let place = Whose::only(agent).place(server.name.as_str(), launch)?;
        let standing = self.0.as_ref()?.at(place.clone()).standing().await;
        Some(Used::new(&place, None, standing))
    }

    /// All logins that an agent uses a server with, over stdio and over HTTP.
    pub(crate) async fn all(&self, server: &ServerConfig, agent: Option<&AgentName>) -> Vec<Used> {
        let Launch::Http(launch) = &server.launch else { return Vec::new() };
        let only = Whose::only(agent).place(server.name.as_str(), launch);
        let (Some(only), Some(logins)) = (only, &self.0) else { return Vec::new() };
        let own = agent
            .filter(|_| launch.oauth.account == AccountOf::Auto)
            .map(|agent| Place { account: Some(agent.to_string()), ..only.clone() });
        let over = own.as_ref().map(|_| "stdio");
        let mut all = Vec::new();
        for (place, over) in [(Some(only), over), (own, Some("http"))] {
            let Some(place) = place else { continue };
            let standing = logins.at(place.clone()).standing().await;
            all.push(Used::new(&place, over, standing));
        }
        // Where none was ever asked for, the server may be open to all.
        if all.iter().all(Used::is_unknown) { Vec::new() } else { all }
    }
}
