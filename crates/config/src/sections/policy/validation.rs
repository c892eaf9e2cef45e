//! Validation of the policy keys, including the servers and agents that they name.

use std::collections::{BTreeMap, BTreeSet};

use globset::Glob;

use crate::sections::filter::{self, FilterSubject};
use crate::sections::limits::RawRateLimits;
use crate::sections::policy::patterns::{
    check_tool_patterns, glob, into_values, warn_unknown_server,
};
use crate::sections::policy::raw::{RawAgentPolicy, RawConfirmation, RawDefaultPolicy};
use crate::sections::policy::{conditions, inheritance};
use crate::syntax::objects::LocatedMap;
use crate::syntax::paths::PathResolver;
use crate::syntax::reader::{ConfigReader, Located};
use mcp_workbench_names::AgentName;
use mcp_workbench_settings::{
    AgentPolicy, ConfirmationPolicy, DefaultPolicy, PolicyConfig, UnknownAgentPolicy,
};

/// The keyword in `dangerousTools` that covers all tools annotated with `destructiveHint`.
const DESTRUCTIVE_HINT: &str = "destructiveHint";

pub(crate) struct RawPolicy {
    pub(crate) agent_policies: Option<LocatedMap<RawAgentPolicy>>,
    pub(crate) exposed_tools: Option<LocatedMap<Vec<Located<String>>>>,
    pub(crate) exposed_resources: Option<LocatedMap<Vec<Located<String>>>>,
    pub(crate) exposed_prompts: Option<LocatedMap<Vec<Located<String>>>>,
    pub(crate) default_policy: Option<RawDefaultPolicy>,
    pub(crate) dangerous_tools: Option<Vec<Located<String>>>,
    pub(crate) require_confirmation: Option<RawConfirmation>,
}

impl RawPolicy {
    /// Checks the policy. `servers` holds the names of all servers, including disabled ones.
    pub(crate) fn checked(
        self,
        servers: &[String],
        paths: &PathResolver<'_>,
        reader: &mut ConfigReader<'_>,
    ) -> PolicyConfig {
        let Self {
            agent_policies,
            exposed_tools,
            exposed_resources,
            exposed_prompts,
            default_policy,
            dangerous_tools,
            require_confirmation,
        } = self;
        let has_lists = agent_policies.is_some() || exposed_tools.is_some();
        let agents = agent_policies.unwrap_or_default().0;
        inheritance::check(&agents, reader);
        let is_said = agents.is_empty() || default_policy.is_some();
        let strangers = if is_said { UnknownAgentPolicy::Allow } else { UnknownAgentPolicy::Deny };
        let agents = agents
            .into_iter()
            .map(|(name, raw)| {
                check_agent(&name, reader);
                (AgentName::new(&name.value), agent(raw, servers, paths, reader))
            })
            .collect();
        let among = ServerScope { allowed: None, servers };
        let exposed_tools = among.tools(exposed_tools, reader);
        let dangerous = dangerous_tools.unwrap_or_default();
        let (hint, dangerous): (Vec<_>, Vec<_>) =
            dangerous.into_iter().partition(|pattern| is_destructive_hint(&pattern.value));
        PolicyConfig {
            agents,
            exposed_tools,
            exposed_resources: among.filters(exposed_resources, filter::RESOURCE, reader),
            exposed_prompts: among.filters(exposed_prompts, filter::PROMPT, reader),
            default: check_default_policy(default_policy, !has_lists, reader),
            strangers,
            dangerous_tools: check_tool_patterns(dangerous, servers, reader),
            is_hint_dangerous: !hint.is_empty(),
            confirmation: match require_confirmation {
                Some(RawConfirmation::Dangerous(false)) => ConfirmationPolicy::Never,
                Some(RawConfirmation::AlsoFor(tools)) => {
                    ConfirmationPolicy::Dangerous(check_tool_patterns(tools, servers, reader))
                }
                Some(RawConfirmation::Dangerous(true)) | None => ConfirmationPolicy::default(),
            },
            projects: Vec::new(),
            project_toolboxes: BTreeSet::new(),
            working_directory: None,
        }
    }
}

fn is_destructive_hint(word: &str) -> bool {
    word == DESTRUCTIVE_HINT || word == "destructive_hint"
}

fn check_agent(name: &Located<String>, reader: &mut ConfigReader<'_>) {
    if name.value.trim().is_empty() {
        reader.report_error(&name.location, "expected an agent name", None);
    } else if name.value.trim() != name.value {
        reader.report_error(
            &name.location,
            "an agent name must not start or end with white space",
            None,
        );
    }
}

fn agent(
    raw: RawAgentPolicy,
    servers: &[String],
    paths: &PathResolver<'_>,
    reader: &mut ConfigReader<'_>,
) -> AgentPolicy {
    let RawAgentPolicy {
        extends,
        allowed_servers,
        tool_overrides,
        resource_overrides,
        prompt_overrides,
        when,
        limits,
    } = raw;
    for pattern in allowed_servers.iter().flatten() {
        let Some(glob) = glob(pattern, reader) else { continue };
        let glob = glob.compile_matcher();
        let means = |server: &String| *server == pattern.value || glob.is_match(server);
        if !servers.iter().any(means) {
            warn_unknown_server(&pattern.value, &pattern.location, servers, reader);
        }
    }
    let allowed_servers = allowed_servers.map(into_values);
    let among = ServerScope { allowed: allowed_servers.as_deref(), servers };
    AgentPolicy {
        extends: extends.into_iter().flatten().map(|name| AgentName::new(name.value)).collect(),
        tool_overrides: among.tools(tool_overrides, reader),
        resource_overrides: among.filters(resource_overrides, filter::RESOURCE, reader),
        prompt_overrides: among.filters(prompt_overrides, filter::PROMPT, reader),
        allowed_servers,
        when: when
            .into_iter()
            .flatten()
            .map(|raw| conditions::check(raw, servers, paths, reader))
            .collect(),
        limits: limits.map(RawRateLimits::checked).unwrap_or_default(),
    }
}

fn check_default_policy(
    raw: Option<RawDefaultPolicy>,
    allows_unknown: bool,
    reader: &mut ConfigReader<'_>,
) -> DefaultPolicy {
    let implied = DefaultPolicy { allow_unknown_tools: allows_unknown, ..DefaultPolicy::default() };
    let Some(raw) = raw else { return implied };
    let RawDefaultPolicy {
        allow_unknown_tools,
        allow_unknown_servers,
        max_tools_per_agent,
        require_explicit_approval,
    } = raw;
    if let Some(most) = max_tools_per_agent {
        let hint = "use `toolOverrides` or `exposedTools` to select an agent's tools".to_owned();
        let message =
            "ignored: not supported, because it does not define which tools an agent loses";
        reader.report_warning(&most.location, message, Some(hint));
    }
    DefaultPolicy {
        allow_unknown_tools: allow_unknown_tools.map_or(allows_unknown, |flag| flag.value),
        allow_unknown_servers: allow_unknown_servers.map(|flag| flag.value),
        require_explicit_approval: require_explicit_approval.is_some_and(|flag| flag.value),
    }
}

/// The servers that per-server lists can name: all, and those that the agent may use.
#[derive(Clone, Copy)]
struct ServerScope<'a> {
    allowed: Option<&'a [String]>,
    servers: &'a [String],
}

type RawServerLists = Option<LocatedMap<Vec<Located<String>>>>;

impl ServerScope<'_> {
    fn tools(
        self,
        raw: RawServerLists,
        reader: &mut ConfigReader<'_>,
    ) -> BTreeMap<String, Vec<String>> {
        self.lists(raw, reader, |tools, reader| check_tool_patterns(tools, self.servers, reader))
    }

    fn filters(
        self,
        raw: RawServerLists,
        subject: FilterSubject,
        reader: &mut ConfigReader<'_>,
    ) -> BTreeMap<String, Vec<String>> {
        self.lists(raw, reader, |list, reader| filter::into_patterns(Some(list), subject, reader))
    }

    /// Checks per-server lists, and warns about lists without effect: unknown or disallowed
    /// servers.
    fn lists(
        self,
        raw: RawServerLists,
        reader: &mut ConfigReader<'_>,
        checked: impl Fn(Vec<Located<String>>, &mut ConfigReader<'_>) -> Vec<String>,
    ) -> BTreeMap<String, Vec<String>> {
        let lists = raw.unwrap_or_default().0.into_iter().map(|(server, list)| {
            if server.value == "*" {
                // Applies to all servers without their own list.
            } else if !self.servers.contains(&server.value) {
                warn_unknown_server(&server.value, &server.location, self.servers, reader);
            } else if self.allowed.is_some_and(|allowed| !is_among(&server.value, allowed)) {
                let message = "no effect: the server is not in `allowedServers`";
                reader.report_warning(&server.location, message, None);
            }
            (server.value, checked(list, reader))
        });
        lists.collect()
    }
}

fn is_among(server: &str, patterns: &[String]) -> bool {
    patterns.iter().any(|pattern| {
        pattern == server
            || Glob::new(pattern).is_ok_and(|glob| glob.compile_matcher().is_match(server))
    })
}
