//! The conditions of an agent, and the access to servers that they leave.

use std::sync::Arc;

use crate::policy::access::{self, Access};
use crate::policy::condition::Condition;
use crate::policy::rule::RulePath;
use crate::policy::tool_patterns::ToolPatternSet;
use mcp_workbench_names::{AgentName, ServerName, ServerRef, ToolboxName};
use mcp_workbench_settings::PolicyConfig;

/// The compiled conditions of an agent, each with the tools it applies to (`None`: all).
pub(super) struct AgentConditions<'a>(pub(super) Vec<(Arc<Condition>, Option<&'a [String]>)>);

impl<'a> AgentConditions<'a> {
    pub(super) fn new(config: &'a PolicyConfig, agent: Option<&AgentName>) -> Self {
        let folder = config.working_directory.as_deref();
        let whens = access::conditions(config, agent).into_iter().map(|(rule, when)| {
            (Arc::new(Condition::new(rule, when, folder)), when.tools.as_deref())
        });
        Self(whens.collect())
    }

    pub(super) fn at<'w>(
        &'w self,
        at: &'w ServerRef,
    ) -> impl Iterator<Item = (&'w Arc<Condition>, ToolPatternSet)> {
        self.0.iter().map(|(condition, tools)| {
            (
                condition,
                tools.map_or_else(ToolPatternSet::all, |tools| ToolPatternSet::new(tools, at)),
            )
        })
    }
}

/// Returns the agent's access to a server, or the rule that hides the server.
pub(super) fn resolve_access<'a>(
    config: &'a PolicyConfig,
    agent: Option<&AgentName>,
    whens: &AgentConditions<'_>,
    at: &ServerRef,
) -> Result<Access<'a>, RulePath> {
    let access = access::resolve(config, agent, at)?;
    let mut elsewhere = whens.at(at).filter(|(condition, _)| !condition.matches_directory());
    match elsewhere.find(|(_, names)| names.has_all()) {
        Some((condition, _)) => Err(condition.rule().clone()),
        None => Ok(access),
    }
}

pub(super) fn server_ref(toolbox: &ToolboxName, server: &ServerName) -> ServerRef {
    ServerRef { toolbox: toolbox.clone(), server: server.clone() }
}
