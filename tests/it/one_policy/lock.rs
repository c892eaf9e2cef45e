//! Random locks: reviewed definitions and the mode for differences.
//!
//! Implements the documented rules again. The only workbench code it uses attaches the lock to a
//! configuration.

use std::sync::Arc;

use mcp_workbench_settings::{
    Config, DefinitionDigest, DefinitionVariant, LockedDefinition, LockedDefinitions, LockedServer,
    Lockfile,
};
use mcp_workbench_wire::json::RawJson;
use mcp_workbench_wire::json::definition_text::canonical_definition;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use crate::one_policy::servers::{prompt, template, tool};
use crate::one_policy::world::{Catalog, Server, World};

#[derive(Clone, Debug, Default)]
pub(crate) struct Reviewed {
    pub(crate) definitions: Option<&'static str>,
    /// Tools, prompts and templates that are missing or different in the lock.
    pub(crate) differing: Vec<String>,
    pub(crate) speaks_otherwise: bool,
    /// `true` if the lock has a tool that the server lacks.
    pub(crate) lacks_one: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    pub(crate) definitions: Option<&'static str>,
    pub(crate) has_lock: bool,
}

fn definitions() -> impl Strategy<Value = Option<&'static str>> {
    option::weighted(0.3, select(vec!["off", "warn", "quarantine", "deny"]))
}

pub(crate) fn rules() -> impl Strategy<Value = Rules> {
    let strict = option::of(select(vec!["warn", "quarantine", "deny"]));
    let definitions = prop_oneof![2 => Just(None), 1 => strict];
    (definitions, prop::bool::weighted(0.8))
        .prop_map(|(definitions, has_lock)| Rules { definitions, has_lock })
}

pub(crate) fn reviewed(names: Vec<&'static str>) -> impl Strategy<Value = Reviewed> {
    let differing = prop_oneof![1 => Just(Vec::new()), 2 => subsequence(names, 0..4)];
    let odd = prop::bool::weighted(0.2);
    (definitions(), differing, odd, odd).prop_map(
        |(definitions, differing, speaks_otherwise, lacks_one)| Reviewed {
            definitions,
            differing: differing.into_iter().map(str::to_owned).collect(),
            speaks_otherwise,
            lacks_one,
        },
    )
}

impl Rules {
    fn fate(self, server: &Server) -> &'static str {
        let says = server.reviewed.definitions.or(self.definitions);
        says.unwrap_or(if self.has_lock { "warn" } else { "off" })
    }

    fn is_reviewed(self, server: &Server, name: &str) -> bool {
        self.has_lock && !server.reviewed.differing.iter().any(|other| other == name)
    }

    fn speaks_otherwise(self, server: &Server) -> bool {
        server.catalog.instructions.is_some()
            && (!self.has_lock || server.reviewed.speaks_otherwise)
    }

    pub(crate) fn keeps_back(self, server: &Server, name: &str) -> bool {
        self.fate(server) == "quarantine" && !self.is_reviewed(server, name)
    }

    /// Returns `true` if a resource or a template is withheld.
    pub(crate) fn keeps_resources_back(self, server: &Server) -> bool {
        let Catalog { resources, templates, .. } = &server.catalog;
        resources.iter().chain(templates).any(|uri| self.keeps_back_resource(server, uri))
    }

    /// Returns `true` for a withheld resource or template, and for a URI that only withheld
    /// templates match. The locks of these worlds have no resources, so they don't judge them.
    pub(crate) fn keeps_back_resource(self, server: &Server, uri: &str) -> bool {
        let start = |template: &str| template.split('{').next().unwrap_or_default().to_owned();
        let mut of = server.catalog.templates.iter().filter(|one| uri.starts_with(&start(one)));
        if server.catalog.resources.iter().any(|other| other == uri) {
            return self.fate(server) == "quarantine" && !self.has_lock;
        }
        of.any(|one| self.keeps_back(server, one))
    }

    pub(crate) fn silences(self, server: &Server) -> bool {
        self.fate(server) == "quarantine" && self.speaks_otherwise(server)
    }

    pub(crate) fn closes(self, server: &Server) -> bool {
        let catalog = &server.catalog;
        let mut all = catalog.tools.iter().chain(&catalog.prompts).chain(&catalog.templates);
        self.fate(server) == "deny"
            && (all.any(|name| !self.is_reviewed(server, name))
                || (!self.has_lock && !catalog.resources.is_empty())
                || self.speaks_otherwise(server)
                || (self.has_lock && server.reviewed.lacks_one))
    }
}

impl World {
    /// Returns `true` if the lock can hide anything.
    pub(crate) fn is_strict(&self) -> bool {
        let servers = self.toolboxes.iter().flat_map(|toolbox| &toolbox.servers);
        let mut fates = servers.map(|server| self.rules.fate(server));
        fates.any(|fate| matches!(fate, "quarantine" | "deny"))
    }

    /// Returns `true` unless the lock withholds the tool or denies its server.
    pub(crate) fn is_reviewed(&self, [toolbox, server, tool]: &[String; 3]) -> bool {
        let toolbox = self.toolboxes.iter().find(|other| other.name == *toolbox);
        let server = toolbox.and_then(|of| of.servers.iter().find(|other| other.name == *server));
        server
            .is_none_or(|server| !self.rules.closes(server) && !self.rules.keeps_back(server, tool))
    }

    pub(crate) fn attach_lock(&self, config: &mut Config) {
        if !self.rules.has_lock {
            config.apply_drift_policy();
            return;
        }
        let mut lock = Lockfile::default();
        for toolbox in &self.toolboxes {
            for server in &toolbox.servers {
                let known = config.toolbox(&toolbox.name).and_then(|t| t.server(&server.name));
                let Some(known) = known else { continue };
                let name = config.lock_key(&toolbox.name, known);
                lock.servers.insert(name, Arc::new(locked_server(server)));
            }
        }
        config.attach_lock(&lock);
    }
}

fn locked_server(server: &Server) -> LockedServer {
    let Server { catalog, reviewed, .. } = server;
    let kind = |names: &[String], of: fn(&str) -> Value| {
        let all = names.iter().filter_map(|name| {
            let mut definition = of(name);
            if reviewed.differing.contains(name) {
                if name.len() % 2 == 0 {
                    return None;
                }
                definition["description"] = "Is reviewed.".into();
            }
            Some((name.clone(), locked(&definition)))
        });
        all.collect::<LockedDefinitions>()
    };
    let mut tools = kind(&catalog.tools, tool);
    if reviewed.lacks_one {
        tools.insert("gone".to_owned(), locked(&tool("gone")));
    }
    let instructions = catalog.instructions.as_ref().map(|said| {
        locked(&if reviewed.speaks_otherwise { json!("Be reviewed.") } else { json!(said) })
    });
    LockedServer {
        launch: "{}".into(),
        package: None,
        info: None,
        instructions,
        tools,
        prompts: kind(&catalog.prompts, prompt),
        templates: kind(&catalog.templates, template),
        resources: None,
    }
}

fn locked(definition: &Value) -> LockedDefinition {
    let said = canonical_definition(&RawJson::encode(definition), &[]).expect("a canonical form");
    let text = String::from_utf8(said.clone()).expect("a text");
    let variant = DefinitionVariant { digest: DefinitionDigest::of(&said), text: text.into() };
    LockedDefinition { spellings: vec![variant], ignore: Vec::new(), is_conditional: false }
}
