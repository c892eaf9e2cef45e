//! Explains to people why an agent can or can't use a tool, resource or prompt, with the same rules
//! that decide requests.

use crate::catalog::Listing;
use crate::policy::access::{self, Access};
use crate::policy::agent_conditions::{AgentConditions, resolve_access, server_ref};
use crate::policy::permit::ToolTraits;
use crate::policy::primitives::PrimitiveRules;
use crate::policy::rule::{RiskReason, RulePath};
use crate::policy::server_rules::ServerRules;
use crate::policy::time_window::UnixTime;
use mcp_workbench_names::{AgentName, ServerRef, ToolId};
use mcp_workbench_settings::{Config, PolicyCondition, TimeWindow};

/// Why an agent can or can't use a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// `true` if the agent can use the tool now.
    pub is_visible: bool,
    /// The rule that decided `is_visible`.
    pub rule: RulePath,
    /// `true` if the agent can use the tool when all conditions hold.
    pub is_allowed: bool,
    /// For a macro, the tool of the step that decided; `None` if the macro itself did.
    pub step: Option<ToolId>,
    /// `true` if `agentPolicies` has an entry for the agent.
    pub has_agent_policy: bool,
    /// The `when` conditions that apply to the tool.
    pub conditions: Vec<ConditionStatus>,
    /// Why the tool is dangerous, if it is.
    pub danger: Option<RiskReason>,
    /// Why the user has to confirm each call, if so.
    pub confirmation: Option<RiskReason>,
}

/// A `when` condition that applies to a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionStatus {
    pub rule: RulePath,
    pub words: String,
    /// `true` if the condition holds now, without regard to the arguments of a call.
    pub holds: bool,
}

/// A primitive other than a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceOrPrompt<'a> {
    /// A resource URI or a URI template.
    Resource(&'a str),
    /// The server's own name for a prompt.
    Prompt(&'a str),
}

/// Why an agent can or can't use a resource or a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub is_visible: bool,
    /// The rule that decided; `None` if no rule applies.
    pub rule: Option<RulePath>,
    /// `true` if `agentPolicies` has an entry for the agent.
    pub is_named: bool,
}

/// Explains the decision on a resource or prompt of a server with this listing. Returns `None`
/// if the toolbox has no such server.
pub(super) fn explain_primitive(
    config: &Config,
    agent: Option<&AgentName>,
    at: &ServerRef,
    what: ResourceOrPrompt<'_>,
    listing: &Listing,
) -> Option<Verdict> {
    let server = config.toolbox(at.toolbox.as_str())?.server(at.server.as_str())?;
    let is_named = agent.is_some_and(|agent| config.policy.agents.contains_key(agent));
    let whens = AgentConditions::new(&config.policy, agent);
    let access = match resolve_access(&config.policy, agent, &whens, at) {
        Ok(access) => access,
        Err(rule) => return Some(Verdict { is_visible: false, rule: Some(rule), is_named }),
    };
    let Access { resources, prompts, project, .. } = access;
    let decided = match what {
        ResourceOrPrompt::Resource(uri) => {
            let guard = PrimitiveRules::of_resources(server, resources, project.resources);
            guard.decide_uri(uri, listing).map(Option::<&RulePath>::cloned).map_err(RulePath::clone)
        }
        ResourceOrPrompt::Prompt(name) => {
            let guard = PrimitiveRules::of_prompts(server, prompts, project.prompts);
            guard.decide_prompt(name).map(Option::<&RulePath>::cloned).map_err(RulePath::clone)
        }
    };
    Some(match decided {
        Ok(rule) => Verdict { is_visible: true, rule, is_named },
        Err(rule) => Verdict { is_visible: false, rule: Some(rule), is_named },
    })
}

/// Explains the decision on a tool, by the server's own name for it. A macro is visible only if
/// the tools of all its steps are. Returns `None` if the toolbox has no such server.
pub(super) fn explain(
    config: &Config,
    agent: Option<&AgentName>,
    tool: &ToolId,
    traits: ToolTraits,
    now: UnixTime,
) -> Option<Explanation> {
    let mut whole = explain_alone(config, agent, tool, traits, now)?;
    for step in config.macro_at(tool).iter().flat_map(|config| &config.steps) {
        let step = config.original_tool_id(&step.tool);
        let of_step = explain_alone(config, agent, &step, ToolTraits::default(), now)?;
        let is_worse =
            (whole.is_allowed && !of_step.is_allowed) || (whole.is_visible && !of_step.is_visible);
        if is_worse {
            let Explanation { is_visible, rule, is_allowed, .. } = of_step;
            whole = Explanation { is_visible, rule, is_allowed, step: Some(step), ..whole };
        }
        for demand in of_step.conditions {
            if !whole.conditions.contains(&demand) {
                whole.conditions.push(demand);
            }
        }
    }
    if !whole.is_allowed {
        (whole.conditions, whole.danger, whole.confirmation) = (Vec::new(), None, None);
    }
    Some(whole)
}

/// Ignores the steps of a macro.
fn explain_alone(
    config: &Config,
    agent: Option<&AgentName>,
    tool: &ToolId,
    traits: ToolTraits,
    now: UnixTime,
) -> Option<Explanation> {
    let server = config.toolbox(tool.toolbox.as_str())?.server(tool.server.as_str())?;
    let is_named = agent.is_some_and(|agent| config.policy.agents.contains_key(agent));
    let denied = |rule| Explanation {
        is_visible: false,
        rule,
        is_allowed: false,
        step: None,
        has_agent_policy: is_named,
        conditions: Vec::new(),
        danger: None,
        confirmation: None,
    };
    let at = server_ref(&tool.toolbox, &tool.server);
    let access = match access::resolve(&config.policy, agent, &at) {
        Ok(access) => access,
        Err(rule) => return Some(denied(rule)),
    };
    let whens = AgentConditions::new(&config.policy, agent);
    let rules = ServerRules::new(config, access, &whens, server, &at);
    let candidate = rules.candidate(tool, traits);
    let (rule, is_listed) = match rules.listed(&candidate, traits) {
        Ok((rule, is_listed)) => (rule.clone(), is_listed),
        Err(rule) => return Some(denied(rule)),
    };
    let written = access::conditions(&config.policy, agent);
    let applied = rules.conditions.iter().zip(written);
    let applied = applied.filter(|((_, names), _)| names.has(&candidate).unwrap_or(true));
    let demands: Vec<ConditionStatus> = applied
        .map(|((condition, _), (rule, when))| ConditionStatus {
            rule,
            words: words(when, condition.wanted()),
            holds: condition.holds(|| now),
        })
        .collect();
    let missed = demands.iter().find(|demand| !demand.holds).map(|demand| demand.rule.clone());
    let danger = rules.concerns.danger(&candidate, traits);
    Some(Explanation {
        is_visible: missed.is_none(),
        rule: missed.unwrap_or(rule),
        is_allowed: true,
        step: None,
        has_agent_policy: is_named,
        conditions: demands,
        danger,
        confirmation: rules.concerns.confirmation(&candidate, danger, is_listed),
    })
}

fn words(when: &PolicyCondition, arguments: impl Iterator<Item = String>) -> String {
    let folders = when.working_directory.as_ref().map(|globs| {
        let globs: Vec<String> = globs.iter().map(|glob| format!("`{glob}`")).collect();
        format!("the working directory is {}", globs.join(" or "))
    });
    let time = when.time.as_ref().map(|window| hours(*window));
    let all: Vec<String> = folders.into_iter().chain(time).chain(arguments).collect();
    all.join(", and ")
}

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

fn hours(window: TimeWindow) -> String {
    let TimeWindow { from, to, days, utc_offset } = window;
    let clock = |minutes: u32| format!("{:02}:{:02}", minutes / 60, minutes % 60);
    let on: Vec<&str> = DAYS.iter().zip(days).filter(|(_, on)| *on).map(|(day, _)| *day).collect();
    let days = match on.as_slice() {
        [] => ", on no days".to_owned(),
        all if all.len() == DAYS.len() => String::new(),
        some => format!(", {}", some.join(" ")),
    };
    let sign = if utc_offset < 0 { '-' } else { '+' };
    let ahead = match utc_offset {
        0 => String::new(),
        offset => format!("{sign}{}", clock(offset.unsigned_abs())),
    };
    format!("the time is between {} and {} (UTC{ahead}{days})", clock(from), clock(to))
}
