//! The rules of a configuration, for all agents.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::catalog::Listing;
use crate::policy::access;
use crate::policy::agent_conditions::{AgentConditions, resolve_access, server_ref};
use crate::policy::agent_policy::Policy;
use crate::policy::explanation::{self, Explanation, ResourceOrPrompt, Verdict};
use crate::policy::interner::PolicyInterner;
use crate::policy::permit::ToolTraits;
use crate::policy::time_window::UnixTime;
use mcp_workbench_names::{AgentName, ServerName, ServerRef, ToolId, ToolboxName};
use mcp_workbench_settings::{Config, Launch, PolicyConfig, ServerConfig};

/// The rules of one configuration, for all agents.
#[derive(Debug)]
pub struct Policies {
    config: Arc<Config>,
    /// The visible configuration of each agent that has a policy, and of all others (`None`).
    seen: BTreeMap<Option<AgentName>, OnceLock<Arc<Config>>>,
    made: PolicyInterner,
}

impl Policies {
    pub fn new(config: Arc<Config>) -> Self {
        let agents = config.policy.agents.keys().cloned().map(Some);
        let seen = agents.chain([None]).map(|agent| (agent, OnceLock::new())).collect();
        Self { config, seen, made: PolicyInterner::default() }
    }

    /// Returns the part of the configuration that an agent may know about.
    ///
    /// For an agent that is limited to one toolbox, that is the toolbox, with all its tools shown
    /// from the start.
    pub fn visible_config(
        &self,
        agent: Option<&AgentName>,
        toolbox: Option<&ToolboxName>,
    ) -> Arc<Config> {
        let agent = agent.cloned();
        let is_known = agent.as_ref().is_none_or(|agent| self.config.policy.knows(agent));
        let others = || self.seen.get(&None).filter(|_| is_known);
        let slot = self.seen.get(&agent).or_else(others);
        let see = || {
            let seen = self.restricted_config(agent.as_ref());
            // Most agents see the same configuration, so share it.
            let mut known = self.seen.values().filter_map(OnceLock::get);
            let same = known.find(|known| ***known == seen);
            same.map_or_else(|| Arc::new(seen), Arc::clone)
        };
        let seen = slot.map_or_else(see, |slot| Arc::clone(slot.get_or_init(see)));
        let Some(toolbox) = toolbox else { return seen };
        let mut seen = Arc::unwrap_or_clone(seen);
        seen.toolboxes.retain(|other| other.name == *toolbox);
        seen.keep_macros(|tool| tool.toolbox == *toolbox);
        if let Some(catalog) = &mut seen.navigator.catalog {
            catalog.retain(|at, _| at.toolbox == *toolbox);
        }
        seen.mode = seen.mode.of_one_toolbox();
        Arc::new(seen)
    }

    /// Returns the configuration without policy rules, and without servers and macros that the
    /// agent can't use.
    fn restricted_config(&self, agent: Option<&AgentName>) -> Config {
        let mut seen = (*self.config).clone();
        let rules = &self.config.policy;
        let whens = AgentConditions::new(rules, agent);
        for toolbox in &mut seen.toolboxes {
            let at = |server: &ServerConfig| server_ref(&toolbox.name, &server.name);
            toolbox
                .servers
                .retain(|server| resolve_access(rules, agent, &whens, &at(server)).is_ok());
        }
        self.narrow_macros(&mut seen, agent);
        seen.toolboxes.retain(|toolbox| !toolbox.servers.is_empty());
        if let Some(catalog) = &mut seen.navigator.catalog {
            let policy = Policy::of(&self.config, agent);
            catalog.retain(|at, tool| {
                let (toolbox, server) = (at.toolbox.clone(), at.server.clone());
                policy.can_ever_grant(&ToolId { toolbox, server, tool: tool.to_owned() })
            });
        }
        if let Some(agent) = agent {
            seen.limits.per_agent = access::rates(rules, agent).or(seen.limits.per_agent);
        }
        for project in &rules.projects {
            seen.limits.per_agent = seen.limits.per_agent.lowest(project.limits);
        }
        seen.policy = PolicyConfig::default();
        seen
    }

    /// Removes macros that the agent can never use, or that call a tool it can never use.
    fn narrow_macros(&self, seen: &mut Config, agent: Option<&AgentName>) {
        if seen.toolboxes.iter().all(|toolbox| toolbox.macros().next().is_none()) {
            return;
        }
        let policy = Policy::of(&self.config, agent);
        for toolbox in &mut seen.toolboxes {
            let own = |server: &ServerName, tool: &str| ToolId {
                toolbox: toolbox.name.clone(),
                server: server.clone(),
                tool: tool.to_owned(),
            };
            for server in &mut toolbox.servers {
                if let Launch::Macros(macros) = &mut server.launch {
                    macros.retain(|config| policy.can_ever_grant(&own(&server.name, &config.name)));
                }
            }
        }
        seen.keep_macros(|tool| policy.can_ever_grant(&self.config.original_tool_id(tool)));
    }

    /// Returns the rules for an agent; `None` is the anonymous agent.
    pub fn for_agent(&self, agent: Option<&AgentName>) -> Arc<Policy> {
        self.made.shared(Policy::of(&self.config, agent))
    }

    /// Explains the decision on a tool, by the server's own name for it. A macro is visible only if
    /// the tools of all its steps are. Returns `None` if the toolbox has no such server.
    pub fn explain(
        &self,
        agent: Option<&AgentName>,
        tool: &ToolId,
        traits: ToolTraits,
        now: UnixTime,
    ) -> Option<Explanation> {
        explanation::explain(&self.config, agent, tool, traits, now)
    }

    /// Explains the decision on a resource or prompt of a server with this listing. Returns `None`
    /// if the toolbox has no such server.
    pub fn explain_primitive(
        &self,
        agent: Option<&AgentName>,
        at: &ServerRef,
        what: ResourceOrPrompt<'_>,
        listing: &Listing,
    ) -> Option<Verdict> {
        explanation::explain_primitive(&self.config, agent, at, what, listing)
    }
}
