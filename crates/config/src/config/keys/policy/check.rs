//! Checks of what is said of agents and tools: patterns, and the servers and agents that are named.

use std::collections::BTreeMap;

use globset::Glob;

use crate::config::keys::filter::{self, About};
use crate::config::keys::limits::RawRates;
use crate::config::keys::policy::patterns::{glob, patterns, texts, unknown_server};
use crate::config::keys::policy::raw::{RawAgentPolicy, RawConfirmation, RawDefaultPolicy};
use crate::config::keys::policy::{conditions, inheritance};
use crate::config::syntax::entries::Entries;
use crate::config::syntax::places::Places;
use crate::config::syntax::reader::{Located, Reader};
use crate::name::AgentName;
use crate::settings::{AgentPolicy, Confirmation, DefaultPolicy, PolicyConfig, Strangers};

/// The word among `dangerousTools` for whatever its server says is destructive.
const HINT: &str = "destructiveHint";

/// The keys of a file that say who may use what.
pub(crate) struct Rules {
    pub(crate) agent_policies: Option<Entries<RawAgentPolicy>>,
    pub(crate) exposed_tools: Option<Entries<Vec<Located<String>>>>,
    pub(crate) exposed_resources: Option<Entries<Vec<Located<String>>>>,
    pub(crate) exposed_prompts: Option<Entries<Vec<Located<String>>>>,
    pub(crate) default_policy: Option<RawDefaultPolicy>,
    pub(crate) dangerous_tools: Option<Vec<Located<String>>>,
    pub(crate) require_confirmation: Option<RawConfirmation>,
}

impl Rules {
    /// Checks them; `servers` are the names of all servers, those that are switched off too.
    pub(crate) fn checked(
        self,
        servers: &[String],
        places: &Places<'_>,
        reader: &mut Reader<'_>,
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
        let strangers = if is_said { Strangers::Served } else { Strangers::Refused };
        let agents = agents
            .into_iter()
            .map(|(name, raw)| {
                check_agent(&name, reader);
                (AgentName::new(&name.value), agent(raw, servers, places, reader))
            })
            .collect();
        let among = Among { allowed: None, servers };
        let exposed_tools = among.tools(exposed_tools, reader);
        let dangerous = dangerous_tools.unwrap_or_default();
        let (hint, dangerous): (Vec<_>, Vec<_>) =
            dangerous.into_iter().partition(|pattern| is_hint(&pattern.value));
        PolicyConfig {
            agents,
            exposed_tools,
            exposed_resources: among.filters(exposed_resources, filter::RESOURCE, reader),
            exposed_prompts: among.filters(exposed_prompts, filter::PROMPT, reader),
            default: default(default_policy, !has_lists, reader),
            strangers,
            dangerous_tools: patterns(dangerous, servers, reader),
            is_hint_dangerous: !hint.is_empty(),
            confirmation: match require_confirmation {
                Some(RawConfirmation::Dangerous(false)) => Confirmation::Never,
                Some(RawConfirmation::Besides(tools)) => {
                    Confirmation::Dangerous(patterns(tools, servers, reader))
                }
                Some(RawConfirmation::Dangerous(true)) | None => Confirmation::default(),
            },
            working_directory: None,
        }
    }
}

fn is_hint(word: &str) -> bool {
    word == HINT || word == "destructive_hint"
}

fn check_agent(name: &Located<String>, reader: &mut Reader<'_>) {
    if name.value.trim().is_empty() {
        reader.error(&name.spot, "expected a name for the agent", None);
    } else if name.value.trim() != name.value {
        reader.error(
            &name.spot,
            "the name of an agent may not begin or end with white space",
            None,
        );
    }
}

fn agent(
    raw: RawAgentPolicy,
    servers: &[String],
    places: &Places<'_>,
    reader: &mut Reader<'_>,
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
            unknown_server(&pattern.value, &pattern.spot, servers, reader);
        }
    }
    let allowed_servers = allowed_servers.map(texts);
    let among = Among { allowed: allowed_servers.as_deref(), servers };
    AgentPolicy {
        extends: extends.into_iter().flatten().map(|name| AgentName::new(name.value)).collect(),
        tool_overrides: among.tools(tool_overrides, reader),
        resource_overrides: among.filters(resource_overrides, filter::RESOURCE, reader),
        prompt_overrides: among.filters(prompt_overrides, filter::PROMPT, reader),
        allowed_servers,
        when: when
            .into_iter()
            .flatten()
            .map(|raw| conditions::check(raw, servers, places, reader))
            .collect(),
        limits: limits.map(RawRates::checked).unwrap_or_default(),
    }
}

fn default(
    raw: Option<RawDefaultPolicy>,
    allows_unknown: bool,
    reader: &mut Reader<'_>,
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
        let hint = "`toolOverrides` and `exposedTools` say which tools an agent has".to_owned();
        let message = "no effect: it does not say which tools an agent that has more of them loses";
        reader.warn(&most.spot, message, Some(hint));
    }
    DefaultPolicy {
        allow_unknown_tools: allow_unknown_tools.map_or(allows_unknown, |flag| flag.value),
        allow_unknown_servers: allow_unknown_servers.map(|flag| flag.value),
        require_explicit_approval: require_explicit_approval.is_some_and(|flag| flag.value),
    }
}

/// The servers that lists may speak of: all there are, and those that an agent is allowed.
#[derive(Clone, Copy)]
struct Among<'a> {
    allowed: Option<&'a [String]>,
    servers: &'a [String],
}

/// Lists by server, as they are written.
type Lists = Option<Entries<Vec<Located<String>>>>;

impl Among<'_> {
    /// Lists of tools by server.
    fn tools(self, raw: Lists, reader: &mut Reader<'_>) -> BTreeMap<String, Vec<String>> {
        self.lists(raw, reader, |tools, reader| patterns(tools, self.servers, reader))
    }

    /// Lists of resources or prompts by server, which may leave some out.
    fn filters(
        self,
        raw: Lists,
        about: About,
        reader: &mut Reader<'_>,
    ) -> BTreeMap<String, Vec<String>> {
        self.lists(raw, reader, |list, reader| filter::checked(Some(list), about, reader))
    }

    /// Checks the servers of lists. A list that nothing comes of is worth a word: those who wrote it
    /// mean something by it.
    fn lists(
        self,
        raw: Lists,
        reader: &mut Reader<'_>,
        checked: impl Fn(Vec<Located<String>>, &mut Reader<'_>) -> Vec<String>,
    ) -> BTreeMap<String, Vec<String>> {
        let lists = raw.unwrap_or_default().0.into_iter().map(|(server, list)| {
            if !self.servers.contains(&server.value) {
                unknown_server(&server.value, &server.spot, self.servers, reader);
            } else if self.allowed.is_some_and(|allowed| !is_among(&server.value, allowed)) {
                let message = "no effect: `allowedServers` does not have this server";
                reader.warn(&server.spot, message, None);
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
