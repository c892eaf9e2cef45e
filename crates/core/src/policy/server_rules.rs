//! The compiled rules for one server, as they apply to one agent.

use std::sync::Arc;

use foldhash::HashMap;

use crate::policy::access::{Access, ProjectAccess};
use crate::policy::agent_conditions::{AgentConditions, server_ref};
use crate::policy::condition::Condition;
use crate::policy::filter::{ServerEntryFilter, ToolFilter};
use crate::policy::permit::{Grant, Permit, ToolTraits};
use crate::policy::primitives::PrimitiveRules;
use crate::policy::rule::{RiskReason, RulePath};
use crate::policy::time_window::UnixTime;
use crate::policy::tool_patterns::{Candidate, ToolPatternSet};
use mcp_workbench_names::untrusted_text::is_invisible;
use mcp_workbench_names::{ServerRef, ToolId};
use mcp_workbench_settings::{
    Config, ConfirmationPolicy, DriftPolicy, ServerConfig, ToolAnnotation, ToolAnnotations,
    is_core_method,
};

/// All rules for one server in one toolbox. A tool must satisfy every one.
#[derive(Debug)]
pub(super) struct ServerRules {
    pub(super) resources: Arc<PrimitiveRules>,
    pub(super) prompts: Arc<PrimitiveRules>,
    /// Allowlists: a tool in any of them may be used.
    pub(super) lists: Vec<(RulePath, ToolPatternSet)>,
    /// The rule for unlisted tools, and `true` if it allows them.
    pub(super) otherwise: (RulePath, bool),
    /// Lists of project files, and `true` if a tool must be in the list, `false` if it must not.
    project: Vec<(RulePath, ToolPatternSet, bool)>,
    entry: ServerEntryFilter,
    /// The methods of protocol extensions that the server's entry lists; `None` means none.
    extension_methods: Option<ToolFilter>,
    /// Conditions that must hold, with the tools they apply to.
    pub(super) conditions: Vec<(Arc<Condition>, ToolPatternSet)>,
    pub(super) concerns: RiskRules,
    pub(super) definitions: DriftPolicy,
    names: ConfiguredNames,
}

/// The names that the server's entry gives its tools.
#[derive(Debug)]
struct ConfiguredNames {
    /// Looked up as [`ServerConfig::tool_override`] does.
    renamed: HashMap<String, Option<String>>,
    prefix: String,
    /// The longest name that agents see, in bytes.
    limit: usize,
}

#[derive(Debug)]
pub(super) struct RiskRules {
    dangerous: ToolPatternSet,
    is_hint_dangerous: bool,
    /// `None` disables confirmations.
    confirmed: Option<ToolPatternSet>,
    is_unknown_confirmed: bool,
    /// Lists of project files. Their tools are confirmed in any case.
    project: Vec<ToolPatternSet>,
}

impl ServerRules {
    pub(super) fn new(
        config: &Config,
        access: Access<'_>,
        whens: &AgentConditions<'_>,
        server: &ServerConfig,
        at: &ServerRef,
    ) -> Self {
        let policy = &config.policy;
        let Access { lists, otherwise, resources, prompts, project } = access;
        let ProjectAccess {
            tools,
            resources: project_resources,
            prompts: project_prompts,
            denied_tools,
            dangerous_tools,
        } = project;
        let all: Vec<_> = config.servers().map(|(t, s)| server_ref(&t.name, &s.name)).collect();
        let lists = lists
            .into_iter()
            .map(|(rule, tools)| (rule, ToolPatternSet::allowing(tools, at, &all)));
        let wanted = tools
            .into_iter()
            .map(|(rule, tools)| (rule, ToolPatternSet::allowing(tools, at, &all), true));
        let denied = denied_tools
            .into_iter()
            .map(|(rule, tools)| (rule, ToolPatternSet::new(tools, at), false));
        let overrides = server.overrides.iter();
        let renamed = overrides.map(|(own, over)| (own.clone(), over.name.clone()));
        Self {
            resources: PrimitiveRules::of_resources(server, resources, project_resources),
            prompts: PrimitiveRules::of_prompts(server, prompts, project_prompts),
            lists: lists.collect(),
            otherwise,
            project: wanted.chain(denied).collect(),
            entry: ServerEntryFilter::new(server),
            extension_methods: server
                .extension_methods
                .iter()
                .any(|pattern| !pattern.starts_with('!'))
                .then(|| ToolFilter::new(&server.extension_methods)),
            conditions: whens.at(at).map(|(c, names)| (Arc::clone(c), names)).collect(),
            concerns: RiskRules {
                dangerous: ToolPatternSet::new(&policy.dangerous_tools, at),
                is_hint_dangerous: policy.is_hint_dangerous,
                confirmed: match &policy.confirmation {
                    ConfirmationPolicy::Never => None,
                    ConfirmationPolicy::Dangerous(besides) => {
                        Some(ToolPatternSet::new(besides, at))
                    }
                },
                is_unknown_confirmed: policy.default.require_explicit_approval,
                project: dangerous_tools
                    .into_iter()
                    .map(|tools| ToolPatternSet::new(tools, at))
                    .collect(),
            },
            definitions: server.effective_drift_policy(),
            names: ConfiguredNames {
                renamed: renamed.collect(),
                prefix: server.client_prefix(),
                limit: config.max_tool_name_length,
            },
        }
    }

    pub(super) fn lists_extension_method(&self, method: &str) -> bool {
        let listed = self.extension_methods.as_ref();
        let is_plain = !is_core_method(method) && !method.chars().any(is_invisible);
        is_plain && listed.is_some_and(|all| all.allows(method))
    }

    /// Decides on a tool, or returns the rule that hides it.
    pub(super) fn decide(
        &self,
        tool: &ToolId,
        traits: ToolTraits,
        now: impl Fn() -> UnixTime,
    ) -> Result<Grant, RulePath> {
        let candidate = self.candidate(tool, traits);
        let (rule, is_listed) = self.listed(&candidate, traits)?;
        let (mut conditions, mut windows) = (Vec::new(), Vec::new());
        for (condition, names) in &self.conditions {
            if !names.has(&candidate).unwrap_or(true) {
                continue;
            }
            if !condition.holds(&now) {
                return Err(condition.rule().clone());
            }
            if condition.asks_for_arguments() {
                conditions.push(Arc::clone(condition));
            }
            if condition.window().is_some() {
                windows.push(Arc::clone(condition));
            }
        }
        let danger = self.concerns.danger(&candidate, traits);
        let confirmation = self.concerns.confirmation(&candidate, danger, is_listed);
        let rule = rule.clone();
        let permit = Permit { tool: tool.clone(), rule, danger, confirmation, windows };
        Ok(Grant { permit, conditions })
    }

    pub(super) fn uses_annotations(&self) -> bool {
        let RiskRules { dangerous, is_hint_dangerous, confirmed, project, .. } = &self.concerns;
        let lists = self.lists.iter().map(|(_, names)| names);
        let lists = lists.chain(self.project.iter().map(|(_, names, _)| names)).chain(project);
        let conditions = self.conditions.iter().map(|(_, names)| names);
        let mut lists = lists.chain(conditions).chain([dangerous]).chain(confirmed);
        *is_hint_dangerous
            || self.entry.uses_annotations()
            || lists.any(ToolPatternSet::uses_annotations)
    }

    /// Returns the traits that a tool can have whose definition isn't known yet.
    pub(super) fn possible_traits(&self) -> impl Iterator<Item = ToolTraits> + use<> {
        let sets = if self.uses_annotations() { usize::MAX } else { 1 };
        let sets = ToolAnnotations::all_sets().take(sets);
        sets.map(|annotations| ToolTraits { annotations, ..ToolTraits::default() })
    }

    /// Returns the rule that allows a tool at some time, if any does.
    pub(super) fn rule_at_any_time(&self, tool: &ToolId) -> Option<&RulePath> {
        self.possible_traits().find_map(|traits| self.rule_for_traits(tool, traits))
    }

    fn rule_for_traits(&self, tool: &ToolId, traits: ToolTraits) -> Option<&RulePath> {
        let candidate = self.candidate(tool, traits);
        let mut elsewhere =
            self.conditions.iter().filter(|(condition, _)| !condition.matches_directory());
        let (rule, _) = self.listed(&candidate, traits).ok()?;
        let is_elsewhere = elsewhere.any(|(_, names)| names.has(&candidate).unwrap_or(true));
        (!is_elsewhere).then_some(rule)
    }

    pub(super) fn candidate<'a>(&'a self, tool: &'a ToolId, traits: ToolTraits) -> Candidate<'a> {
        let shown = self.names.of(&tool.tool, traits.has_prefixed_twin);
        Candidate::new(tool, shown, self.names.limit, traits.annotations)
    }

    /// Decides by name and annotations only. Returns the rule, and `true` if it is a list that contains
    /// the tool.
    pub(super) fn listed(
        &self,
        candidate: &Candidate<'_>,
        traits: ToolTraits,
    ) -> Result<(&RulePath, bool), RulePath> {
        // Fail closed: a list that doesn't compile allows nothing.
        let listed = self.lists.iter().find(|(_, names)| names.has(candidate).unwrap_or(false));
        let rule = match listed {
            Some((rule, _)) => rule,
            None if self.otherwise.1 => &self.otherwise.0,
            None => return Err(self.otherwise.0.clone()),
        };
        let tool = candidate.id();
        let passed = self.entry.pass(&tool.tool, traits);
        passed.map_err(|key| RulePath::new(&["mcp_servers", tool.server.as_str(), key]))?;
        for (rule, names, is_wanted) in &self.project {
            // Fail closed, as above.
            if names.has(candidate).unwrap_or(!is_wanted) != *is_wanted {
                return Err(rule.clone());
            }
        }
        Ok((rule, listed.is_some()))
    }

    /// Returns `true` if a project file restricts the tools.
    pub(super) fn has_project_lists(&self) -> bool {
        !self.project.is_empty()
    }

    /// A rule is identified by its path, so equal paths mean equal lists.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let lists =
            |rules: &Self| rules.lists.iter().map(|(rule, _)| rule.clone()).collect::<Vec<_>>();
        self.conditions.is_empty()
            && other.conditions.is_empty()
            && self.otherwise == other.otherwise
            && self.resources.is_same(&other.resources)
            && self.prompts.is_same(&other.prompts)
            && lists(self) == lists(other)
    }
}

impl ConfiguredNames {
    /// Returns the configured name of a tool; `None` if it is the server's own.
    fn of(&self, tool: &str, has_namesake: bool) -> Option<&str> {
        if self.renamed.is_empty() {
            return None;
        }
        let prefixed = || self.renamed.get(&format!("{}{tool}", self.prefix));
        let prefixed = if has_namesake { None } else { prefixed() };
        prefixed.or_else(|| self.renamed.get(tool))?.as_deref()
    }
}

impl RiskRules {
    pub(super) fn danger(&self, tool: &Candidate<'_>, traits: ToolTraits) -> Option<RiskReason> {
        if self.dangerous.has(tool).unwrap_or(true) {
            Some(RiskReason::Dangerous)
        } else if self.is_hint_dangerous && traits.annotations.has(ToolAnnotation::Destructive) {
            Some(RiskReason::Destructive)
        } else {
            self.is_dangerous_in_project(tool).then_some(RiskReason::Project)
        }
    }

    fn is_dangerous_in_project(&self, tool: &Candidate<'_>) -> bool {
        self.project.iter().any(|names| names.has(tool).unwrap_or(true))
    }

    pub(super) fn confirmation(
        &self,
        tool: &Candidate<'_>,
        danger: Option<RiskReason>,
        is_listed: bool,
    ) -> Option<RiskReason> {
        let Some(confirmed) = &self.confirmed else {
            return self.is_dangerous_in_project(tool).then_some(RiskReason::Project);
        };
        let named = || confirmed.has(tool).unwrap_or(true).then_some(RiskReason::Listed);
        let unknown = || (self.is_unknown_confirmed && !is_listed).then_some(RiskReason::Unknown);
        danger.or_else(named).or_else(unknown)
    }
}
