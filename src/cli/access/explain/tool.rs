//! `explain` for tools.

use std::fmt::Write;

use serde::Serialize;

use crate::cli::access::explain::explanation::{
    ExplainedAccess, RulePlace, RuleReason, shown_agent,
};
use crate::cli::output::{did_you_mean, quoted};
use crate::cli::servers::login_summary::LoginSummary;
use mcp_workbench_core::catalog::DefinitionDrift;
use mcp_workbench_core::policy::{Explanation, Policies, RiskReason, ToolTraits, UnixTime};
use mcp_workbench_names::{AgentName, ToolId};
use mcp_workbench_settings::{DriftPolicy, ToolOverride};

#[derive(Serialize)]
pub(super) struct ToolExplanation<'a> {
    #[serde(flatten)]
    access: ExplainedAccess<'a>,
    #[serde(flatten)]
    tool: ExplainedTool<'a>,
    #[serde(flatten)]
    outcome: ToolAccess,
    rule: &'a str,
    /// The macro step that the rule is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
    #[serde(flatten)]
    reason: RuleReason<'a>,
    /// The project file that adds the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<&'a str>,
    #[serde(flatten)]
    terms: CallTerms<'a>,
    /// `null` if the server has no cached listing.
    listed: Option<bool>,
    #[serde(skip_serializing_if = "<[LoginSummary]>::is_empty")]
    logins: &'a [LoginSummary],
}

/// The tool and its overrides in the configuration.
#[derive(Serialize)]
struct ExplainedTool<'a> {
    tool: &'a str,
    /// The name that agents see, if the configuration sets one.
    #[serde(skip_serializing_if = "Option::is_none")]
    configured_name: Option<&'a str>,
    /// Names of arguments that the configuration sets in every call. Agents don't see them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pinned: Vec<&'a str>,
}

#[derive(Serialize)]
struct ToolAccess {
    visible: bool,
    /// How the definition differs from the lock, with commands to review and accept it.
    #[serde(skip_serializing_if = "Option::is_none")]
    lock: Option<String>,
    /// `true` if the tool is available once all conditions hold.
    allowed: bool,
}

#[derive(Serialize)]
struct CallTerms<'a> {
    conditions: Vec<ConditionRow<'a>>,
    dangerous: Option<&'static str>,
    confirmed: Option<&'static str>,
}

#[derive(Serialize)]
struct ConditionRow<'a> {
    rule: &'a str,
    condition: &'a str,
    holds: bool,
}

pub(super) struct ToolCase<'a> {
    agent: Option<&'a AgentName>,
    tool: &'a ToolId,
    pub(super) explanation: Explanation,
    pub(super) tool_override: ToolOverride,
    /// `true` if the configured name hides another tool of the server.
    pub(super) is_shadowed: bool,
    pub(super) place: RulePlace,
    /// The project file that adds the server.
    pub(super) project: Option<&'a str>,
    pub(super) is_listed: Option<bool>,
    /// Known tools with similar names.
    pub(super) near: Vec<String>,
    /// The drift policy, the difference from the lock, and the command that accepts it.
    pub(super) drift: Option<(DriftPolicy, DefinitionDrift, String)>,
    pub(super) logins: Vec<LoginSummary>,
}

impl<'a> ToolCase<'a> {
    pub(super) fn new(
        policies: &Policies,
        of: Option<&'a AgentName>,
        tool: &'a ToolId,
        traits: ToolTraits,
        now: UnixTime,
    ) -> Option<Self> {
        let explanation = policies.explain(of, tool, traits, now)?;
        Some(Self {
            agent: of,
            tool,
            explanation,
            tool_override: ToolOverride::default(),
            is_shadowed: false,
            place: RulePlace::default(),
            project: None,
            is_listed: None,
            near: Vec::new(),
            drift: None,
            logins: Vec::new(),
        })
    }

    pub(super) fn answer(&self) -> ToolExplanation<'_> {
        let Explanation {
            is_visible,
            rule,
            is_allowed,
            step,
            has_agent_policy: is_named,
            conditions: demands,
            danger,
            confirmation,
        } = &self.explanation;
        let conditions = demands.iter().map(|demand| ConditionRow {
            rule: demand.rule.as_str(),
            condition: &demand.words,
            holds: demand.holds,
        });
        ToolExplanation {
            access: ExplainedAccess {
                agent: self.agent.map(AgentName::as_str),
                agent_has_entry: *is_named,
                toolbox: self.tool.toolbox.as_str(),
                server: self.tool.server.as_str(),
            },
            tool: ExplainedTool {
                tool: &self.tool.tool,
                configured_name: self.tool_override.name.as_deref(),
                pinned: self.tool_override.arguments.keys().map(String::as_str).collect(),
            },
            outcome: ToolAccess {
                visible: *is_visible && !self.is_withheld(),
                lock: self.lock_note(),
                allowed: *is_allowed,
            },
            rule: rule.as_str(),
            step: step.as_ref().map(ToString::to_string),
            reason: RuleReason::new(&self.place, self.reason()),
            project: self.project,
            terms: CallTerms {
                conditions: conditions.collect(),
                dangerous: danger.map(RiskReason::config_key),
                confirmed: confirmation.map(RiskReason::config_key),
            },
            listed: self.is_listed,
            logins: &self.logins,
        }
    }

    pub(super) fn text(&self) -> String {
        let Explanation {
            is_visible,
            rule,
            step,
            has_agent_policy: is_named,
            conditions: demands,
            danger,
            confirmation,
            ..
        } = &self.explanation;
        let ToolId { toolbox, server, tool } = self.tool;
        let who = shown_agent(self.agent);
        let verdict =
            if *is_visible && !self.is_withheld() { "is available to" } else { "is hidden from" };
        let mut text = String::new();
        if self.is_listed == Some(false) {
            let near = did_you_mean(&self.near, " or ").map(|near| format!(" ({near})"));
            let near = near.unwrap_or_default();
            _ = writeln!(
                text,
                "no tool `{tool}` is known of `{toolbox}/{server}`{near}; if there were one:"
            );
        }
        _ = write!(text, "`{tool}` of `{toolbox}/{server}` {verdict} {who}");
        let mut line = |what: &str, says: &str| _ = write!(text, "\n  {what:<10}{says}");
        line("rule", &format!("{rule}{}", self.place));
        if let Some(step) = step {
            line("step", &format!("the macro calls `{step}`"));
        }
        let (why, change) = self.reason();
        line("reason", &why);
        if let Some(change) = change {
            line("change", &change);
        }
        if let Some(project) = self.project {
            line("project", &format!("`{project}` adds the server"));
        }
        if let Some(name) = &self.tool_override.name {
            line("name", &format!("agents see `{name}`; the server calls it `{tool}`"));
            if self.is_shadowed {
                line(
                    "note",
                    &format!("the server's own `{name}` is hidden: this tool takes its name"),
                );
            }
        }
        if !self.tool_override.arguments.is_empty() {
            let names = quoted(self.tool_override.arguments.keys(), ", ");
            let says = format!("arguments set by the configuration, hidden from agents: {names}");
            line("pinned", &says);
        }
        for demand in demands {
            let state = if demand.holds { "" } else { ", currently not met" };
            line("only when", &format!("{}{state} ({})", demand.words, demand.rule));
        }
        if let Some(concern) = confirmation {
            line(
                "confirmed",
                &format!("the user must confirm each call: {concern} ({})", concern.config_key()),
            );
        } else if let Some(concern) = danger {
            line(
                "dangerous",
                &format!("{concern} ({}); no confirmation required", concern.config_key()),
            );
        }
        if self.agent.is_some() && !is_named && !self.is_unknown_agent() {
            line("note", "no policy for this agent; default rules apply");
        }
        if let Some(says) = self.lock_note() {
            line("lock", &says);
        }
        if self.is_listed.is_none() {
            line("note", "no cached tool list for this server");
        }
        for login in &self.logins {
            line("login", &login.to_text());
        }
        text
    }

    /// Returns `true` if agents don't see the tool because its definition differs from the lock.
    fn is_withheld(&self) -> bool {
        self.drift.as_ref().is_some_and(|(definitions, ..)| definitions.is_enforced())
    }

    fn lock_note(&self) -> Option<String> {
        let (definitions, drifted, accept) = self.drift.as_ref()?;
        Some(format!(
            "differs from `workbench.lock`: {drifted} (`onDefinitionChange` is `{}`); review it with \
             `mcp-workbench lock --diff`, accept it with `{accept}`",
            definitions.as_str()
        ))
    }

    fn is_unknown_agent(&self) -> bool {
        let Explanation { rule, has_agent_policy: is_named, is_allowed, .. } = &self.explanation;
        self.agent.is_some() && !is_named && !is_allowed && rule.path() == ["agent_policies"]
    }

    /// Returns the reason, and the change that would reverse the outcome.
    fn reason(&self) -> (String, Option<String>) {
        let explanation = &self.explanation;
        let ToolId { server, tool, .. } = explanation.step.as_ref().unwrap_or(self.tool);
        let path: Vec<&str> = explanation.rule.path().iter().map(String::as_str).collect();
        let is_project = explanation.rule.project_file().is_some();
        if explanation.is_visible {
            let why = match path.as_slice() {
                ["default_policy", ..] => "no list mentions it",
                _ => "the list contains it",
            };
            return (why.to_owned(), None);
        }
        let to_list = || Some(format!("add \"{tool}\" or a matching glob to the list"));
        let (why, change) = match path.as_slice() {
            ["denied_tools"] if is_project => ("the project denies it", None),
            ["allowed_servers"] if is_project => (
                "the project does not allow the server",
                Some(format!("add \"{server}\" to the list")),
            ),
            ["agent_policies", _, "when", ..] => ("the condition is not met", None),
            ["agent_policies", _, "allowed_servers"] => (
                "the list does not contain the server",
                Some(format!("add \"{server}\" to the list")),
            ),
            ["agent_policies"] if self.is_unknown_agent() => (
                "the agent has no policy, and there is no `defaultPolicy`",
                Some("add a policy for the agent, or a `defaultPolicy`".to_owned()),
            ),
            ["agent_policies"] => ("no policy that it extends allows the server", None),
            ["default_policy", "allow_unknown_servers"] => (
                "no list mentions the server",
                Some(format!(
                    "add a list for `{server}` to `exposedTools` or the agent's `toolOverrides`"
                )),
            ),
            ["default_policy", ..] => (
                "no list mentions it",
                Some(format!(
                    "add \"{tool}\" for `{server}` to `exposedTools` or the agent's `toolOverrides`"
                )),
            ),
            [_, _, "tool_filters"] => {
                ("the server's filters exclude it", Some("change the filters".to_owned()))
            }
            [_, _, "include_names"] => ("the category does not include it", to_list()),
            [_, _, "overrides"] => {
                ("it is turned off", Some("remove `\"enabled\": false`".to_owned()))
            }
            _ => ("the list does not contain it", to_list()),
        };
        (why.to_owned(), change)
    }
}
