//! Why a tool may be used or not, for people: the same rules as every decision, with what decided.

use crate::catalog::Listing;
use crate::name::{AgentName, ServerRef, ToolId};
use crate::policy::access;
use crate::policy::besides::Guard;
use crate::policy::rule::{Concern, Rule};
use crate::policy::{Moment, Policies, Policy, Rules, Traits, Whens, server_ref, standing};
use crate::settings::{TimeWindow, When};

/// Why an agent may use a tool, or why the tool does not exist for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// `true` if the tool is there now.
    pub is_visible: bool,
    /// The rule that decided that.
    pub rule: Rule,
    /// `true` if the tool would be there with all conditions held.
    pub is_allowed: bool,
    /// The tool of a step that the rule is about, if the tool is a macro and a step decided.
    pub step: Option<ToolId>,
    /// `true` if there is an entry for the agent.
    pub is_named: bool,
    /// The conditions that have to hold besides.
    pub demands: Vec<Demand>,
    /// Why the tool is dangerous, if it is.
    pub danger: Option<Concern>,
    /// Why the user confirms each call of it, if so.
    pub confirmation: Option<Concern>,
}

/// One entry of `when` that is about a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Where it stands.
    pub rule: Rule,
    /// The demand in words.
    pub words: String,
    /// `true` if it holds now, as far as that does not depend on a call.
    pub holds: bool,
}

/// A primitive that is no tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Besides<'a> {
    /// The address of a resource, or a template of addresses.
    Resource(&'a str),
    /// A prompt, by its server's own name for it.
    Prompt(&'a str),
}

/// Why an agent may have a resource or a prompt, or why that does not exist for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// `true` if the agent may have it.
    pub is_visible: bool,
    /// The rule that decided that; `None`: no rule speaks of it.
    pub rule: Option<Rule>,
    /// `true` if there is an entry for the agent.
    pub is_named: bool,
}

impl Policies {
    /// Explains what comes of a resource or a prompt of a server that has this listing; `None`: there is
    /// no such server in that toolbox.
    pub fn explain_besides(
        &self,
        agent: Option<&AgentName>,
        at: &ServerRef,
        what: Besides<'_>,
        listing: &Listing,
    ) -> Option<Verdict> {
        let config = &*self.config;
        let server = config.toolbox(at.toolbox.as_str())?.server(at.server.as_str())?;
        let is_named = agent.is_some_and(|agent| config.policy.agents.contains_key(agent));
        let whens = Whens::new(&config.policy, agent);
        let access = match standing(&config.policy, agent, &whens, at) {
            Ok(access) => access,
            Err(rule) => return Some(Verdict { is_visible: false, rule: Some(rule), is_named }),
        };
        let (resources, prompts) = (access.resources, access.prompts);
        let decided = match what {
            Besides::Resource(uri) => {
                let guard = Guard::of_resources(server, resources);
                guard.address(uri, listing).map(Option::<&Rule>::cloned).map_err(Rule::clone)
            }
            Besides::Prompt(name) => {
                let guard = Guard::of_prompts(server, prompts);
                guard.prompt(name).map(Option::<&Rule>::cloned).map_err(Rule::clone)
            }
        };
        Some(match decided {
            Ok(rule) => Verdict { is_visible: true, rule, is_named },
            Err(rule) => Verdict { is_visible: false, rule: Some(rule), is_named },
        })
    }
}

impl Policy {
    /// Returns the rule by which the agent may have a tool, at some time, as far as its name tells.
    pub fn rule_for(&self, tool: &ToolId) -> Option<&Rule> {
        self.rules_at(&tool.toolbox, &tool.server).ok()?.may_pass(tool)
    }

    /// Returns the rule by which the agent may have every tool of a server that a glob means,
    /// whatever tools the server turns out to have: a rule about all tools, or about this very glob.
    pub fn rule_for_glob(&self, at: &ServerRef, glob: &str) -> Option<&Rule> {
        let rules = self.rules_at(&at.toolbox, &at.server).ok()?;
        let listed = rules.lists.iter().find(|(_, names)| names.has_pattern(glob));
        let otherwise = || rules.otherwise.1.then_some(&rules.otherwise.0);
        listed.map(|(rule, _)| rule).or_else(otherwise)
    }
}

impl Policies {
    /// Explains what comes of one tool, by its server's own name for it; `None`: there is no such
    /// server in that toolbox. A macro is there if the tools of all its steps are.
    pub fn explain(
        &self,
        agent: Option<&AgentName>,
        tool: &ToolId,
        traits: Traits,
        now: Moment,
    ) -> Option<Explanation> {
        let mut whole = self.explain_alone(agent, tool, traits, now)?;
        for step in self.config.macro_at(tool).iter().flat_map(|config| &config.steps) {
            let step = self.config.own_id(&step.tool);
            let of_step = self.explain_alone(agent, &step, Traits::default(), now)?;
            let is_worse = (whole.is_allowed && !of_step.is_allowed)
                || (whole.is_visible && !of_step.is_visible);
            if is_worse {
                let Explanation { is_visible, rule, is_allowed, .. } = of_step;
                whole = Explanation { is_visible, rule, is_allowed, step: Some(step), ..whole };
            }
            for demand in of_step.demands {
                if !whole.demands.contains(&demand) {
                    whole.demands.push(demand);
                }
            }
        }
        if !whole.is_allowed {
            (whole.demands, whole.danger, whole.confirmation) = (Vec::new(), None, None);
        }
        Some(whole)
    }

    /// Explains a tool alone, without the steps that a macro has.
    fn explain_alone(
        &self,
        agent: Option<&AgentName>,
        tool: &ToolId,
        traits: Traits,
        now: Moment,
    ) -> Option<Explanation> {
        let config = &*self.config;
        let server = config.toolbox(tool.toolbox.as_str())?.server(tool.server.as_str())?;
        let is_named = agent.is_some_and(|agent| config.policy.agents.contains_key(agent));
        let denied = |rule| Explanation {
            is_visible: false,
            rule,
            is_allowed: false,
            step: None,
            is_named,
            demands: Vec::new(),
            danger: None,
            confirmation: None,
        };
        let access = match access::of(&config.policy, agent, &tool.server) {
            Ok(access) => access,
            Err(rule) => return Some(denied(rule)),
        };
        let at = server_ref(&tool.toolbox, &tool.server);
        let whens = Whens::new(&config.policy, agent);
        let rules = Rules::new(config, access, &whens, server, &at);
        let candidate = rules.candidate(tool, traits);
        let (rule, is_listed) = match rules.listed(&candidate, traits) {
            Ok((rule, is_listed)) => (rule.clone(), is_listed),
            Err(rule) => return Some(denied(rule)),
        };
        let written = access::conditions(&config.policy, agent);
        let applied = rules.conditions.iter().zip(written);
        let applied = applied.filter(|((_, names), _)| names.has(&candidate).unwrap_or(true));
        let demands: Vec<Demand> = applied
            .map(|((condition, _), (rule, when))| Demand {
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
            is_named,
            demands,
            danger,
            confirmation: rules.concerns.confirmation(&candidate, danger, is_listed),
        })
    }
}

/// Puts the demands of an entry of `when` into words.
fn words(when: &When, arguments: impl Iterator<Item = String>) -> String {
    let folders = when.working_directory.as_ref().map(|globs| {
        let globs: Vec<String> = globs.iter().map(|glob| format!("`{glob}`")).collect();
        format!("the workbench is started in {}", globs.join(" or "))
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
        [] => ", on no day".to_owned(),
        all if all.len() == DAYS.len() => String::new(),
        some => format!(", {}", some.join(" ")),
    };
    let sign = if utc_offset < 0 { '-' } else { '+' };
    let ahead = match utc_offset {
        0 => String::new(),
        offset => format!("{sign}{}", clock(offset.unsigned_abs())),
    };
    format!("it is between {} and {} (UTC{ahead}{days})", clock(from), clock(to))
}
