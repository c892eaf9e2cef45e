//! The sign-in status of servers for reports, read from stored logins without contacting a server.

use std::sync::Arc;

use serde::Serialize;
use tokio_util::task::TaskTracker;

use crate::cli::args::GlobalArgs;
use mcp_workbench_core::backend::LoginScope;
use mcp_workbench_login::{LoginRegistry, LoginStorage, LoginTarget, SignInStatus};
use mcp_workbench_names::AgentName;
use mcp_workbench_settings::{AccountScope, Launch, ServerConfig};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LoginState {
    /// The server has never asked for a sign-in.
    Unknown,
    SignedIn,
    SignInRequired,
}

#[derive(Serialize)]
pub(crate) struct LoginSummary {
    /// The agent that owns the login; `None` for the machine's login.
    pub(crate) account: Option<String>,
    /// The transport whose agents use it, `stdio` or `http`, if that makes a difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    transport: Option<&'static str>,
    state: LoginState,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The command to sign in, unless already signed in.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl LoginSummary {
    fn new(target: &LoginTarget, over: Option<&'static str>, standing: SignInStatus) -> Self {
        let (state, reason) = match standing {
            SignInStatus::NotAsked => (LoginState::Unknown, None),
            SignInStatus::SignedIn { .. } => (LoginState::SignedIn, None),
            SignInStatus::SignInRequired { why } => (LoginState::SignInRequired, Some(why)),
        };
        let hint = (state != LoginState::SignedIn)
            .then(|| auth_command("login", &target.server, target.account.as_deref()));
        Self { account: target.account.clone(), transport: over, state, reason, hint }
    }

    pub(crate) fn wants_sign_in(&self) -> bool {
        self.state == LoginState::SignInRequired
    }

    /// Returns `true` if the server has never asked for a sign-in.
    pub(crate) fn is_unknown(&self) -> bool {
        self.state == LoginState::Unknown
    }

    pub(crate) fn to_text(&self) -> String {
        let over = match self.transport {
            Some("http") => "over HTTP, ",
            Some(_) => "over stdio, ",
            None => "",
        };
        let whose = match &self.account {
            Some(agent) => format!("agent `{agent}`"),
            None => "machine account".to_owned(),
        };
        let hint = self.hint.as_ref().map(|hint| format!("; run `{hint}`"));
        let hint = hint.unwrap_or_default();
        let state = match (self.state, &self.reason) {
            (LoginState::SignedIn, _) => "signed in".to_owned(),
            (LoginState::SignInRequired, Some(reason)) => {
                format!("sign-in required ({reason}){hint}")
            }
            _ => format!("not signed in (not required so far){hint}"),
        };
        format!("{over}{whose}: {state}")
    }
}

pub(crate) fn auth_command(what: &str, server: &str, account: Option<&str>) -> String {
    match account {
        Some(agent) => format!("mcp-workbench auth {what} {server} --agent {agent}"),
        None => format!("mcp-workbench auth {what} {server}"),
    }
}

pub(crate) struct LoginSummaryReader(Option<Arc<LoginRegistry>>);

impl LoginSummaryReader {
    pub(crate) fn new(global: &GlobalArgs) -> Self {
        let logins =
            |storage: LoginStorage| LoginRegistry::new(storage, TaskTracker::new(), |_| {});
        Self(global.login_keep().map(logins))
    }

    /// Returns the login that an agent over stdio uses, or `None` if the server has none.
    pub(crate) async fn stdio_login(
        &self,
        server: &ServerConfig,
        agent: Option<&AgentName>,
    ) -> Option<LoginSummary> {
        let Launch::Http(launch) = &server.launch else { return None };
        let target = LoginScope::only(agent).place(server.name.as_str(), launch)?;
        let standing = self.0.as_ref()?.get_or_create(target.clone()).status().await;
        Some(LoginSummary::new(&target, None, standing))
    }

    /// Returns the logins that an agent uses over stdio and over HTTP.
    pub(crate) async fn all(
        &self,
        server: &ServerConfig,
        agent: Option<&AgentName>,
    ) -> Vec<LoginSummary> {
        let Launch::Http(launch) = &server.launch else { return Vec::new() };
        let only = LoginScope::only(agent).place(server.name.as_str(), launch);
        let (Some(only), Some(logins)) = (only, &self.0) else { return Vec::new() };
        let own = agent
            .filter(|_| launch.oauth.account == AccountScope::Auto)
            .map(|agent| LoginTarget { account: Some(agent.to_string()), ..only.clone() });
        let over = own.as_ref().map(|_| "stdio");
        let mut all = Vec::new();
        for (target, over) in [(Some(only), over), (own, Some("http"))] {
            let Some(target) = target else { continue };
            let standing = logins.get_or_create(target.clone()).status().await;
            all.push(LoginSummary::new(&target, over, standing));
        }
        // If no sign-in was ever requested, the server may well be public.
        if all.iter().all(LoginSummary::is_unknown) { Vec::new() } else { all }
    }
}
