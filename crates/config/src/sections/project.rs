//! The project file: toolboxes to add, and rules that narrow the user's.
//!
//! The section is closed: a project can't set anything else, because its author isn't trusted.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::loader::validation::{ServerSections, all_toolboxes};
use crate::sections::filter::{self, FilterSubject};
use crate::sections::limits::RawRateLimits;
use crate::sections::policy::patterns::{
    check_tool_patterns, glob, into_values, warn_unknown_server,
};
use crate::sections::root::{RawConfig, RawServer, RawToolbox};
use crate::syntax::objects::LocatedMap;
use crate::syntax::paths::PathResolver;
use crate::syntax::reader::{ConfigReader, Located, did_you_mean};
use crate::syntax::section::{ConfigSection, section};
use mcp_workbench_names::{ServerName, ToolboxName};
use mcp_workbench_settings::{ProjectRules, ToolAnnotation, ToolboxConfig};

section! {
    /// The configuration of a project, laid over your own: toolboxes that it adds, and rules that
    /// narrow access to your servers.
    ///
    /// Comments and trailing commas are allowed. `${NAME}` and `${NAME:-default}` in any string are
    /// replaced by environment variables. Relative paths start at the folder of this file. Its
    /// servers start only after `mcp-workbench trust`; its rules always apply.
    #[schemars(title = "MCP Workbench project file")]
    pub(crate) struct RawProject in "a project file" {
        /// URL or path of the JSON Schema, for completion and checks in editors.
        #[expect(dead_code, reason = "only editors read it")]
        everybodys "$schema" as pub(crate) schema: Located<String>,

        /// Toolboxes to add, by name. Names of your own toolboxes and servers are taken.
        "toolboxes" as pub(crate) toolboxes: LocatedMap<RawToolbox>,

        /// Servers to add, in the format of any MCP client. Each becomes a toolbox of the same
        /// name.
        everybodys "mcpServers" as pub(crate) mcp_servers: LocatedMap<RawServer>,

        /// The servers of your configuration that agents may use in this project: names and globs.
        /// All by default.
        #[schemars(extend("examples" = [["github", "docs-*"]]))]
        rule "allowedServers" as pub(crate) allowed_servers: Vec<Located<String>>,

        /// The tools that agents may use in this project, by server of your configuration: names,
        /// globs and `server:tool`. `*` stands for all servers without their own list.
        #[schemars(extend("examples" = [{"github": ["get_*", "create_issue"]}]))]
        rule "exposedTools" as pub(crate) exposed_tools: LocatedMap<Vec<Located<String>>>,

        /// The resources and resource templates that agents may use in this project, by server of
        /// your configuration, in the syntax of `resourceFilters`.
        #[schemars(extend("examples" = [{"filesystem": ["file:///docs/*", "!*.env"]}]))]
        rule "exposedResources" as pub(crate) exposed_resources: LocatedMap<Vec<Located<String>>>,

        /// The prompts that agents may use in this project, by server of your configuration, in
        /// the syntax of `promptFilters`.
        #[schemars(extend("examples" = [{"github": ["review_*"]}]))]
        rule "exposedPrompts" as pub(crate) exposed_prompts: LocatedMap<Vec<Located<String>>>,

        /// Tools that agents may not use in this project: names, globs and `server:tool`.
        #[schemars(extend("examples" = [["github:delete_*", "slack:*"]]))]
        rule "deniedTools" as pub(crate) denied_tools: Vec<Located<String>>,

        /// Tools whose calls need the user's confirmation in this project, even if your
        /// `requireConfirmation` is `false`: names, globs and `server:tool`. `destructiveHint` adds
        /// every tool that its server marks as destructive.
        #[schemars(extend("examples" = [["github:merge_*", "destructiveHint"]]))]
        rule "dangerousTools" as pub(crate) dangerous_tools: Vec<Located<String>>,

        /// Limits on the calls of each agent in this project. The lower of these and your limits
        /// apply.
        "limits" as pub(crate) limits: RawRateLimits,
    }
}

/// The names of the user's configuration, which a project can't use.
#[derive(Clone, Debug, Default)]
pub struct TakenNames {
    pub toolboxes: Vec<String>,
    pub servers: Vec<String>,
}

/// The toolboxes and rules of a project file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectConfig {
    pub toolboxes: Vec<ToolboxConfig>,
    /// The disabled servers, which `toolboxes` doesn't contain.
    pub disabled: Vec<(ToolboxName, ServerName)>,
    pub rules: ProjectRules,
}

impl RawProject {
    /// Checks the file. `file` names it in the rules.
    pub(crate) fn checked(
        self,
        file: &str,
        taken: &TakenNames,
        paths: &PathResolver<'_>,
        reader: &mut ConfigReader<'_>,
    ) -> ProjectConfig {
        let Self {
            schema: _,
            toolboxes,
            mcp_servers,
            allowed_servers,
            exposed_tools,
            exposed_resources,
            exposed_prompts,
            denied_tools,
            dangerous_tools,
            limits,
        } = self;
        let mut toolboxes = toolboxes.unwrap_or_default();
        let mut mcp_servers = mcp_servers.unwrap_or_default();
        taken.remove_from(&mut toolboxes, &mut mcp_servers, reader);
        let disabled = disabled_servers(&toolboxes, &mcp_servers);
        let own = toolboxes.0.iter().filter_map(|(_, toolbox)| toolbox.mcp_servers.as_ref());
        let own = own.chain([&mcp_servers]).flat_map(|servers| &servers.0);
        let mut servers = taken.servers.clone();
        for (name, server) in own {
            server.reject_foreign_keys(reader);
            servers.push(name.value.clone());
        }
        let names = KnownServers(servers);
        let rules = ProjectRules {
            file: Arc::from(file),
            allowed_servers: allowed_servers.map(|servers| names.globs(servers, reader)),
            exposed_tools: names
                .lists(exposed_tools, reader, |tools, reader| names.tool_patterns(tools, reader)),
            exposed_resources: names.filters(exposed_resources, filter::RESOURCE, reader),
            exposed_prompts: names.filters(exposed_prompts, filter::PROMPT, reader),
            denied_tools: names.tool_patterns(denied_tools.unwrap_or_default(), reader),
            dangerous_tools: names.dangerous_tools(dangerous_tools.unwrap_or_default(), reader),
            limits: limits.map(RawRateLimits::checked).unwrap_or_default(),
        };
        let sections = ServerSections {
            is_empty_on_purpose: true,
            toolboxes,
            mcp_servers,
            categories: LocatedMap::default(),
        };
        // A project without toolboxes is fine, like a configuration with a catalog.
        let toolboxes = all_toolboxes(sections, true, paths, reader);
        ProjectConfig { toolboxes, disabled, rules }
    }
}

fn disabled_servers(
    toolboxes: &LocatedMap<RawToolbox>,
    mcp_servers: &LocatedMap<RawServer>,
) -> Vec<(ToolboxName, ServerName)> {
    let inside = toolboxes.0.iter().flat_map(|(toolbox, raw)| {
        let servers = raw.mcp_servers.iter().flat_map(|servers| &servers.0);
        servers.map(move |(name, server)| (toolbox, name, server))
    });
    let alone = mcp_servers.0.iter().map(|(name, server)| (name, name, server));
    let disabled = inside.chain(alone).filter(|(.., server)| server.is_disabled());
    disabled
        .map(|(toolbox, name, _)| (ToolboxName::new(&toolbox.value), ServerName::new(&name.value)))
        .collect()
}

impl RawServer {
    /// Reports keys that only the user's configuration can set.
    fn reject_foreign_keys(&self, reader: &mut ConfigReader<'_>) {
        if let Some(flag) = self.inherit_env.as_ref().filter(|flag| flag.value) {
            let hint = "name the variables that the server needs in `env`";
            reader.report_error(
                &flag.location,
                "a project's server can't inherit your environment",
                Some(hint.to_owned()),
            );
        }
        if let Some(word) = &self.on_definition_change {
            let hint = "`onDefinitionChange` of your configuration applies";
            reader.report_error(
                &word.location,
                "a project can't decide about changed definitions",
                Some(hint.to_owned()),
            );
        }
    }
}

impl TakenNames {
    /// Removes toolboxes and servers of a project that have a name of the user's configuration, so
    /// that none of the user's rules applies to them.
    fn remove_from(
        &self,
        toolboxes: &mut LocatedMap<RawToolbox>,
        servers: &mut LocatedMap<RawServer>,
        reader: &mut ConfigReader<'_>,
    ) {
        toolboxes.0.retain_mut(|(name, toolbox)| {
            if is_taken(name, &self.toolboxes, "toolbox", reader) {
                return false;
            }
            let Some(servers) = toolbox.mcp_servers.as_mut() else { return true };
            let was_empty = servers.0.is_empty();
            servers.0.retain(|(name, _)| !is_taken(name, &self.servers, "server", reader));
            was_empty || !servers.0.is_empty()
        });
        servers.0.retain(|(name, _)| {
            !is_taken(name, &self.servers, "server", reader)
                && !is_taken(name, &self.toolboxes, "toolbox", reader)
        });
    }
}

fn is_taken(
    name: &Located<String>,
    names: &[String],
    kind: &str,
    reader: &mut ConfigReader<'_>,
) -> bool {
    let folded = name.value.to_lowercase();
    let Some(own) = names.iter().find(|own| own.to_lowercase() == folded) else { return false };
    let message = format!("ignored: your configuration has a {kind} `{own}`");
    reader.report_warning(&name.location, message, Some("rename it in the project".to_owned()));
    true
}

/// The servers that rules of a project can mean. A project is shared by people with different
/// servers, so only names that look misspelled are reported.
struct KnownServers(Vec<String>);

impl KnownServers {
    fn is_misspelled(&self, name: &str) -> bool {
        let known: Vec<&str> = self.0.iter().map(String::as_str).collect();
        !known.contains(&name) && did_you_mean(name, &known).is_some()
    }

    fn globs(&self, raw: Vec<Located<String>>, reader: &mut ConfigReader<'_>) -> Vec<String> {
        for pattern in &raw {
            if glob(pattern, reader).is_some() && self.is_misspelled(&pattern.value) {
                warn_unknown_server(&pattern.value, &pattern.location, &self.0, reader);
            }
        }
        into_values(raw)
    }

    fn tool_patterns(
        &self,
        raw: Vec<Located<String>>,
        reader: &mut ConfigReader<'_>,
    ) -> Vec<String> {
        let written = raw.iter().filter_map(|pattern| pattern.value.split_once(':'));
        let others = written.map(|(server, _)| server.to_owned());
        let others = others.filter(|server| !self.is_misspelled(server));
        let servers: Vec<String> = others.chain(self.0.iter().cloned()).collect();
        check_tool_patterns(raw, &servers, reader)
    }

    fn dangerous_tools(
        &self,
        raw: Vec<Located<String>>,
        reader: &mut ConfigReader<'_>,
    ) -> Vec<String> {
        let is_hint = |pattern: &Located<String>| pattern.value == "destructiveHint";
        let (hint, raw): (Vec<_>, Vec<_>) = raw.into_iter().partition(is_hint);
        let mut patterns = self.tool_patterns(raw, reader);
        if !hint.is_empty() {
            patterns.push(ToolAnnotation::Destructive.pattern().to_owned());
        }
        patterns
    }

    fn filters(
        &self,
        raw: Option<LocatedMap<Vec<Located<String>>>>,
        subject: FilterSubject,
        reader: &mut ConfigReader<'_>,
    ) -> BTreeMap<String, Vec<String>> {
        self.lists(raw, reader, |list, reader| filter::into_patterns(Some(list), subject, reader))
    }

    fn lists(
        &self,
        raw: Option<LocatedMap<Vec<Located<String>>>>,
        reader: &mut ConfigReader<'_>,
        checked: impl Fn(Vec<Located<String>>, &mut ConfigReader<'_>) -> Vec<String>,
    ) -> BTreeMap<String, Vec<String>> {
        let lists = raw.unwrap_or_default().0.into_iter().map(|(server, list)| {
            if self.is_misspelled(&server.value) {
                warn_unknown_server(&server.value, &server.location, &self.0, reader);
            }
            (server.value, checked(list, reader))
        });
        lists.collect()
    }
}

/// Returns a hint for a key that only the user's configuration can have.
pub(crate) fn user_key_hint(key: &str) -> Option<String> {
    let is_users =
        RawConfig::SPEC.keys.iter().any(|known| known.name == key || known.alias == Some(key));
    is_users.then(|| format!("only your own configuration can set `{key}`"))
}
