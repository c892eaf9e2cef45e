//! The compiled rules for one agent, which decide on its tools, resources and prompts.

use std::sync::Arc;

use foldhash::HashMap;

use crate::catalog::Listing;
use crate::policy::agent_conditions::{AgentConditions, resolve_access, server_ref};
use crate::policy::condition::Condition;
use crate::policy::drift_action::DriftAction;
use crate::policy::permit::{Denial, Grant, ToolTraits};
use crate::policy::primitives::{Admission, PermittedPrimitives, ResourceScope};
use crate::policy::rule::RulePath;
use crate::policy::server_rules::ServerRules;
use crate::policy::time_window::{self, UnixTime};
use mcp_workbench_names::{AgentName, ServerName, ServerRef, ToolId, ToolboxName};
use mcp_workbench_settings::{Config, DriftPolicy};

/// The rules of one configuration for one agent.
#[derive(Debug)]
pub struct Policy {
    /// Contains only servers that the agent may use in part or as a whole.
    rules: HashMap<ToolboxName, HashMap<ServerName, ServerRules>>,
    /// The conditions that depend on the time.
    timed: Vec<Arc<Condition>>,
    uses_annotations: bool,
    tells_agents_apart: bool,
}

impl Policy {
    /// Returns the rules for an anonymous agent.
    pub fn new(config: &Config) -> Self {
        Self::of(config, None)
    }

    pub(super) fn of(config: &Config, agent: Option<&AgentName>) -> Self {
        let whens = AgentConditions::new(&config.policy, agent);
        let rules = config.toolboxes.iter().map(|toolbox| {
            let rules = toolbox.servers.iter().filter_map(|server| {
                let at = server_ref(&toolbox.name, &server.name);
                let access = resolve_access(&config.policy, agent, &whens, &at).ok()?;
                let rules = ServerRules::new(config, access, &whens, server, &at);
                Some((server.name.clone(), rules))
            });
            (toolbox.name.clone(), rules.collect())
        });
        let rules: HashMap<ToolboxName, HashMap<ServerName, ServerRules>> = rules.collect();
        let uses_annotations = rules.values().flat_map(HashMap::values);
        let uses_annotations = uses_annotations.into_iter().any(ServerRules::uses_annotations);
        let timed = whens.0.into_iter().map(|(condition, _)| condition);
        Self {
            rules,
            timed: timed.filter(|condition| condition.window().is_some()).collect(),
            uses_annotations,
            tells_agents_apart: !config.policy.agents.is_empty(),
        }
    }

    /// Returns `true` if the configuration has rules for single agents.
    pub fn has_agent_policies(&self) -> bool {
        self.tells_agents_apart
    }

    /// Decides on one tool, under its server's own name. `now` is called only if a time condition
    /// applies.
    pub fn decide(
        &self,
        tool: &ToolId,
        traits: ToolTraits,
        now: impl Fn() -> UnixTime,
    ) -> Result<Grant, Denial> {
        let rules = self.server_rules(&tool.toolbox, &tool.server)?;
        rules.decide(tool, traits, now).map_err(|rule| Denial { rule: Some(rule) })
    }

    /// Decides on a method of a protocol extension. The entry of the server must list it; the
    /// other rules treat it like a tool of that name.
    pub fn decide_extension_method(
        &self,
        method: &ToolId,
        now: impl Fn() -> UnixTime,
    ) -> Result<Grant, Denial> {
        let rules = self.server_rules(&method.toolbox, &method.server)?;
        if !rules.lists_extension_method(&method.tool) {
            let rule = RulePath::new(&["mcp_servers", method.server.as_str(), "extension_methods"]);
            return Err(Denial { rule: Some(rule) });
        }
        rules.decide(method, ToolTraits::default(), now).map_err(|rule| Denial { rule: Some(rule) })
    }

    /// Returns `true` if the entry of the server lists the method. Other rules may deny it.
    pub fn lists_extension_method(&self, method: &ToolId) -> bool {
        let rules = self.server_rules(&method.toolbox, &method.server);
        rules.is_ok_and(|rules| rules.lists_extension_method(&method.tool))
    }

    /// Returns `true` if the agent may use a tool at some time, judging by its name.
    pub fn can_ever_grant(&self, tool: &ToolId) -> bool {
        let rules = self.server_rules(&tool.toolbox, &tool.server);
        rules.is_ok_and(|rules| rules.rule_at_any_time(tool).is_some())
    }

    /// Returns `true` if the agent may use a tool now, whose annotations aren't known yet.
    pub fn can_grant_unlisted(&self, tool: &ToolId, now: impl Fn() -> UnixTime) -> bool {
        let Ok(rules) = self.server_rules(&tool.toolbox, &tool.server) else { return false };
        rules.possible_traits().any(|traits| rules.decide(tool, traits, &now).is_ok())
    }

    /// Returns `true` if decisions depend on the annotations of tools.
    pub fn uses_annotations(&self) -> bool {
        self.uses_annotations
    }

    /// Returns when a decision may next change because of the time, if ever.
    pub fn next_transition(&self, now: UnixTime) -> Option<UnixTime> {
        let windows = self.timed.iter().filter_map(|condition| condition.window());
        windows.filter_map(|window| time_window::next_change(window, now)).min()
    }

    /// Returns the rule that allows the tool by its name. Time windows and arguments are ignored.
    pub fn rule_for(&self, tool: &ToolId) -> Option<&RulePath> {
        self.server_rules(&tool.toolbox, &tool.server).ok()?.rule_at_any_time(tool)
    }

    /// Returns the rule that allows every tool that `glob` can match, including tools that the
    /// server adds later: a list of all tools, or one with this very glob.
    pub fn rule_for_glob(&self, at: &ServerRef, glob: &str) -> Option<&RulePath> {
        let rules = self.server_rules(&at.toolbox, &at.server).ok()?;
        if rules.has_project_lists() {
            return None;
        }
        let listed = rules.lists.iter().find(|(_, names)| names.has_pattern(glob));
        let otherwise = || rules.otherwise.1.then_some(&rules.otherwise.0);
        listed.map(|(rule, _)| rule).or_else(otherwise)
    }

    /// Returns the action for drifted definitions of a server. It is `Deny` if the agent can't see
    /// the server.
    pub fn drift_action(&self, at: &ServerRef) -> DriftAction {
        match self.server_rules(&at.toolbox, &at.server).map(|rules| rules.definitions) {
            Ok(DriftPolicy::Off | DriftPolicy::Warn) => DriftAction::Serve,
            Ok(DriftPolicy::Quarantine) => DriftAction::Quarantine,
            Ok(DriftPolicy::Deny) | Err(_) => DriftAction::Deny,
        }
    }

    /// Decides on a server as a whole: its capabilities, its instructions, and requests that
    /// concern neither a resource nor a prompt.
    pub fn admit(&self, toolbox: &ToolboxName, server: &ServerName) -> Result<Admission, Denial> {
        self.server_rules(toolbox, server).map(|_| Admission { hearing: None })
    }

    /// Decides on a resource URI or a URI template, given the server's listing.
    pub fn admit_resource(
        &self,
        at: &ServerRef,
        uri: &str,
        listing: &Arc<Listing>,
    ) -> Result<Admission, Denial> {
        let guard = &self.server_rules(&at.toolbox, &at.server)?.resources;
        guard.decide_uri(uri, listing).map_err(|rule| Denial { rule: Some(rule.clone()) })?;
        let hearing = || ResourceScope { guard: Arc::clone(guard), listing: Arc::clone(listing) };
        Ok(Admission { hearing: (!guard.allows_all()).then(hearing) })
    }

    /// Decides on a prompt, under its server's own name.
    pub fn admit_prompt(&self, at: &ServerRef, name: &str) -> Result<Admission, Denial> {
        let guard = &self.server_rules(&at.toolbox, &at.server)?.prompts;
        match guard.decide_prompt(name) {
            Ok(_) => Ok(Admission { hearing: None }),
            Err(rule) => Err(Denial { rule: Some(rule.clone()) }),
        }
    }

    /// Returns `true` if the agent may not use all resources of a server, so that decisions need
    /// the server's listing.
    pub fn restricts_resources(&self, at: &ServerRef) -> bool {
        let rules = self.server_rules(&at.toolbox, &at.server);
        rules.is_ok_and(|rules| !rules.resources.allows_all())
    }

    /// Returns the resources, templates and prompts of a listing that the agent may use.
    pub(crate) fn permitted_primitives(
        &self,
        at: &ServerRef,
        listing: &Listing,
    ) -> PermittedPrimitives {
        let Ok(rules) = self.server_rules(&at.toolbox, &at.server) else {
            return PermittedPrimitives::default();
        };
        let (resources, prompts) = (&rules.resources, &rules.prompts);
        let mut primitives = PermittedPrimitives::default();
        if !resources.allows_all() {
            let is_shown = |uri: &str, name: Option<String>| {
                resources.decide_listed(uri, name.as_deref().unwrap_or_default()).is_ok()
            };
            let all = listing.resources.iter();
            let all = all.filter(|one| is_shown(&one.uri, one.name()));
            primitives.resources = Some(all.cloned().collect());
            let all = listing.templates.iter();
            let all = all.filter(|one| is_shown(&one.uri, one.name()));
            primitives.templates = Some(all.cloned().collect());
        }
        if !prompts.allows_all() {
            let all = listing.prompts.iter().filter(|one| prompts.decide_prompt(&one.name).is_ok());
            primitives.prompts = Some(all.cloned().collect());
        }
        primitives
    }

    /// Returns `true` if both have the same rules of one configuration. A policy with conditions is
    /// never shared.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.rules.len() == other.rules.len()
            && self.rules.iter().all(|(toolbox, rules)| {
                other.rules.get(toolbox).is_some_and(|others| {
                    rules.len() == others.len()
                        && rules.iter().all(|(server, rules)| {
                            others.get(server).is_some_and(|others| rules.is_same(others))
                        })
                })
            })
            && self.timed.is_empty()
            && other.timed.is_empty()
    }

    fn server_rules(
        &self,
        toolbox: &ToolboxName,
        server: &ServerName,
    ) -> Result<&ServerRules, Denial> {
        self.rules.get(toolbox).and_then(|servers| servers.get(server)).ok_or(Denial { rule: None })
    }
}
