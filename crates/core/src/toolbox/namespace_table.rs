//! The table of all primitives under their namespaced names, for `activate` mode.
//!
//! A name belongs to the first primitive that claims it, in the order of the configuration; later
//! ones are discarded. A primitive whose name starts with another namespace's prefix, or is
//! otherwise ambiguous, gets its full name instead. URIs carry the namespace in their scheme,
//! because strict clients reject a `_` there; the documented form with `_` is accepted too. Names
//! are looked up, never parsed.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;

use crate::catalog::{PrimitiveKind, literal_length, may_expand_to};
use crate::policy::ToolFilter;
use crate::toolbox::{ServerView, ToolboxView};
use mcp_workbench_names::{
    ExposedName, ServerRef, ToolId, ToolboxName, namespaced_name, scheme_of_namespace,
};
use mcp_workbench_settings::Config;
use mcp_workbench_wire::json::{EditError, RawJson};

pub const TOOLMAN_ACTIVATE: &str = "toolman_activate";

/// A primitive under its namespaced name.
#[derive(Debug)]
pub struct NamespacedPrimitive {
    pub kind: PrimitiveKind,
    /// Its name with the namespace, or the URI of a resource.
    pub name: String,
    /// The documented form `<namespace>_<own name>`, accepted as an alias if unambiguous.
    pub documented_name: String,
    /// `true` if the documented form is ambiguous and thus isn't accepted.
    is_ambiguous: bool,
    pub at: ServerRef,
    /// The server's own name for it.
    pub own: String,
    pub description: Option<String>,
    /// `true` if it is active in a new session.
    pub starts_active: bool,
    raw: RawJson,
    defined: OnceLock<Result<RawJson, EditError>>,
}

impl NamespacedPrimitive {
    pub fn new(
        kind: PrimitiveKind,
        name: String,
        at: ServerRef,
        own: &str,
        description: Option<String>,
        raw: &RawJson,
    ) -> Self {
        Self {
            kind,
            documented_name: name.clone(),
            is_ambiguous: false,
            name,
            at,
            own: own.to_owned(),
            description,
            starts_active: false,
            raw: raw.clone(),
            defined: OnceLock::new(),
        }
    }

    /// Returns the definition under its namespaced name, otherwise as its server sent it.
    ///
    /// # Errors
    ///
    /// Returns an error if the definition can't be edited; the primitive must not be listed then.
    pub fn definition(&self) -> Result<&RawJson, EditError> {
        let defined = self.defined.get_or_init(|| {
            if self.name == self.own {
                return Ok(self.raw.clone());
            }
            self.raw.with_member(self.kind.key(), &RawJson::encode(&self.name))
        });
        defined.as_ref().map_err(|error| *error)
    }

    /// Returns the tool ID; meaningful only for a tool.
    pub fn tool(&self) -> ToolId {
        let ServerRef { toolbox, server } = self.at.clone();
        ToolId { toolbox, server, tool: self.own.clone() }
    }
}

/// A primitive that was discarded because its name was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameConflict {
    pub kind: PrimitiveKind,
    pub name: String,
    pub loser: ServerRef,
    pub winner: ServerRef,
}

impl fmt::Display for NameConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, loser: ServerRef { toolbox, server }, winner } = self;
        write!(f, "{} `{name}` of server `{server}` in `{toolbox}` is hidden: ", kind.word())?;
        let ServerRef { toolbox, server } = winner;
        write!(f, "server `{server}` in `{toolbox}` comes first and uses the same name")
    }
}

/// The destination of a URI: server, the server's own URI, and the listed primitive, if any.
pub type UriTarget<'a> = (ServerRef, String, Option<&'a NamespacedPrimitive>);

#[derive(Debug, Default)]
pub struct NamespaceTable {
    /// In the order of the configuration, then of each server's own lists.
    pub items: Vec<NamespacedPrimitive>,
    pub discarded: Vec<NameConflict>,
    by_name: HashMap<(PrimitiveKind, String), usize>,
    /// Documented names that differ from the names; `None` if several primitives share one.
    by_full: HashMap<(PrimitiveKind, String), Option<usize>>,
    owners: Vec<Owner>,
}

#[derive(Clone, Copy)]
struct NamespacePrefixes<'a>(&'a Config);

impl NamespacePrefixes<'_> {
    /// Returns `true` if the longest namespace prefix of `name` is another namespace's, or is
    /// shared with one.
    fn is_of_another(self, name: &str, namespace: &str) -> bool {
        let claimed = self.0.toolboxes.iter().filter(|toolbox| !toolbox.namespace.is_empty());
        let claimed = claimed.flat_map(|toolbox| {
            prefixes(&toolbox.namespace)
                .into_iter()
                .filter(|prefix| name.starts_with(prefix))
                .map(|prefix| (prefix.len(), toolbox.namespace != namespace))
        });
        claimed.max().is_some_and(|(_, is_another)| is_another)
    }
}

/// Returns the URI prefix and the name prefix of a namespace.
fn prefixes(namespace: &str) -> [String; 2] {
    [scheme_of_namespace(namespace), namespaced_name(namespace, "")]
}

#[derive(Debug)]
struct Owner {
    at: ServerRef,
    /// Prefix of URIs, and its documented form.
    prefixes: [String; 2],
    /// `true` if another namespace has the same URI prefix.
    is_contested: bool,
    has_resources: bool,
}

impl Owner {
    /// Strips the namespace from a URI; `None` if it has another.
    fn own<'u>(&self, uri: &'u str) -> Option<&'u str> {
        let own = |prefix: &String| uri.strip_prefix(prefix.as_str());
        let [scheme, documented] = &self.prefixes;
        let by_scheme = (!self.is_contested).then(|| own(scheme)).flatten();
        by_scheme.or_else(|| own(documented))
    }

    fn has_namespace(&self) -> bool {
        self.prefixes.iter().any(|prefix| !prefix.is_empty())
    }
}

impl NamespaceTable {
    pub fn new(config: &Config, view: impl Fn(&ToolboxName) -> Arc<ToolboxView>) -> Self {
        let mut all = Self::default();
        let active = InitialActivation::new(&config.active_toolsets);
        for toolbox in &config.toolboxes {
            let view = view(&toolbox.name);
            for server in &toolbox.servers {
                let part = view.part(server.name.as_str());
                let (namespace, limit) = (toolbox.namespace.as_str(), config.max_tool_name_length);
                let claims = NamespacePrefixes(config);
                let primitives = part.map(|part| Primitives { namespace, part, limit, claims });
                let items = primitives.iter().flat_map(Primitives::items);
                for mut item in items {
                    item.starts_active = item.kind == PrimitiveKind::Prompt || active.has(&item);
                    all.push(item);
                }
                let has_resources = part.is_some_and(|part| {
                    let has_some = !part.resources().is_empty() || !part.templates().is_empty();
                    has_some || part.abilities().is_some_and(|can| can.resources.is_some())
                });
                all.owners.push(Owner {
                    at: ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() },
                    is_contested: claims.is_of_another(&scheme_of_namespace(namespace), namespace),
                    prefixes: prefixes(namespace),
                    has_resources,
                });
            }
        }
        all
    }

    /// Adds a primitive, or discards it if its name is taken.
    pub fn push(&mut self, item: NamespacedPrimitive) {
        let key = (item.kind.family(), item.name.clone());
        if let Some(winner) = self.by_name.get(&key).map(|index| self.items[*index].at.clone()) {
            let (kind, name) = (item.kind, item.name);
            self.discarded.push(NameConflict { kind, name, loser: item.at, winner });
        } else {
            if item.documented_name != item.name && !item.is_ambiguous {
                let full = (key.0, item.documented_name.clone());
                let is_taken = self.by_full.contains_key(&full);
                self.by_full.insert(full, (!is_taken).then_some(self.items.len()));
            }
            self.by_name.insert(key, self.items.len());
            self.items.push(item);
        }
    }

    /// Looks up a primitive by name or documented name. Resources include templates.
    pub fn get(&self, kind: PrimitiveKind, name: &str) -> Option<&NamespacedPrimitive> {
        let key = (kind.family(), name.to_owned());
        let exact = self.by_name.get(&key).copied();
        Some(&self.items[exact.or_else(|| *self.by_full.get(&key)?)?])
    }

    /// Returns the primitives whose name or documented name matches a glob.
    pub fn matching(&self, pattern: &str) -> impl Iterator<Item = &NamespacedPrimitive> {
        let filter = ToolFilter::new(&[pattern.to_owned()]);
        let matches = move |item: &&NamespacedPrimitive| {
            filter.allows(&item.name) || filter.allows(&item.documented_name)
        };
        self.items.iter().filter(matches)
    }

    /// Resolves a URI to the resource of that name, else to the templates that may expand to it,
    /// else to every server with its namespace.
    ///
    /// Results contain URIs as their server writes them. So a URI without a namespace resolves to
    /// the servers that list it, else to all servers with resources.
    pub fn resolve_uri(&self, uri: &str) -> Vec<UriTarget<'_>> {
        if let Some(item) = self.get(PrimitiveKind::Resource, uri) {
            return vec![(item.at.clone(), item.own.clone(), Some(item))];
        }
        if mcp_workbench_names::has_our_scheme(uri) {
            let mut owners = self.owners.iter();
            let whose = owners.find_map(|owner| {
                let own = uri.strip_prefix(&mcp_workbench_names::uri_prefix(&owner.at))?;
                Some((owner.at.clone(), own.to_owned(), None))
            });
            return whose.into_iter().collect();
        }
        let with_namespace = self.owners.iter().filter(|owner| owner.has_namespace());
        let mut named: Vec<_> =
            with_namespace.filter_map(|owner| Some((owner, owner.own(uri)?))).collect();
        // If one namespace is a prefix of another, the longer one wins.
        let shortest = named.iter().map(|(_, own)| own.len()).min();
        named.retain(|(_, own)| Some(own.len()) == shortest);
        let is_contested =
            |owner: &Owner| owner.is_contested && uri.starts_with(&owner.prefixes[0]);
        if named.is_empty() && self.owners.iter().any(is_contested) {
            return Vec::new();
        }
        if named.is_empty() {
            let listed = self.items.iter().filter(|item| item.kind == PrimitiveKind::Resource);
            let listed = listed.filter(|item| item.own == uri);
            let listed: Vec<_> =
                listed.map(|item| (item.at.clone(), uri.to_owned(), Some(item))).collect();
            if !listed.is_empty() {
                return listed;
            }
            let may_have_it = |owner: &&Owner| !owner.has_namespace() || owner.has_resources;
            named = self.owners.iter().filter(may_have_it).map(|owner| (owner, uri)).collect();
            // A server without a namespace is the most likely target.
            named.sort_by_key(|(owner, _)| owner.has_namespace());
        }
        let templates =
            self.items.iter().filter(|item| item.kind == PrimitiveKind::ResourceTemplate);
        let made = templates.filter_map(|item| {
            let (_, own) = named.iter().find(|(owner, _)| owner.at == item.at)?;
            may_expand_to(&item.own, own).then(|| (item.at.clone(), (*own).to_owned(), Some(item)))
        });
        let mut made: Vec<UriTarget<'_>> = made.collect();
        // The most literal template wins.
        let literal =
            |item: Option<&NamespacedPrimitive>| item.map(|item| literal_length(&item.own));
        made.sort_by_key(|(.., item)| Reverse(literal(*item)));
        if !made.is_empty() {
            return made;
        }
        named.into_iter().map(|(owner, own)| (owner.at.clone(), own.to_owned(), None)).collect()
    }

    /// Returns the patterns that match no primitive, and can't match any of the unlisted servers.
    pub fn unmatched<'p>(
        &self,
        patterns: &'p [String],
        is_listed: impl Fn(&ServerRef) -> bool,
    ) -> Vec<&'p str> {
        let unlisted: Vec<&Owner> =
            self.owners.iter().filter(|owner| !is_listed(&owner.at)).collect();
        let is_dead = |pattern: &&str| {
            let glob = pattern.strip_prefix('!').unwrap_or(pattern);
            let literal = glob.split(['*', '?', '[', '{', '\\']).next().unwrap_or_default();
            let may_be = |prefix: &String| {
                literal.starts_with(prefix.as_str()) || prefix.starts_with(literal)
            };
            let mut others = unlisted.iter().flat_map(|owner| &owner.prefixes);
            self.matching(glob).next().is_none() && !others.any(may_be)
        };
        patterns.iter().map(String::as_str).filter(is_dead).collect()
    }

    /// Returns the namespaced URI of a server's resource.
    pub fn exposed_uri(&self, server_ref: &ServerRef, uri: &str) -> String {
        let is_it = |item: &&NamespacedPrimitive| {
            item.kind.family() == PrimitiveKind::Resource
                && item.at == *server_ref
                && item.own == uri
        };
        if let Some(item) = self.items.iter().find(is_it) {
            return item.name.clone();
        }
        let owner = self.owners.iter().find(|owner| owner.at == *server_ref);
        match owner {
            Some(owner) if !owner.is_contested => format!("{}{uri}", owner.prefixes[0]),
            _ => mcp_workbench_names::qualified_uri(server_ref, uri),
        }
    }

    /// Returns `true` if `name` starts with the prefix of a namespace other than this server's.
    pub fn is_of_another(&self, config: &Config, name: &str, at: &ServerRef) -> bool {
        let toolbox = config.toolbox(at.toolbox.as_str());
        let namespace = toolbox.map(|toolbox| toolbox.namespace.as_str()).unwrap_or_default();
        NamespacePrefixes(config).is_of_another(name, namespace)
    }
}

/// The globs of `activeToolsets`; `never` has those with a `!`.
struct InitialActivation {
    only: Option<ToolFilter>,
    never: Option<ToolFilter>,
}

impl InitialActivation {
    fn new(patterns: &[String]) -> Self {
        let (never, only): (Vec<&str>, Vec<&str>) =
            patterns.iter().map(String::as_str).partition(|pattern| pattern.starts_with('!'));
        let filter = |patterns: Vec<&str>| {
            let patterns: Vec<_> = patterns.into_iter().map(str::to_owned).collect();
            (!patterns.is_empty()).then(|| ToolFilter::new(&patterns))
        };
        let never = never.into_iter().map(|pattern| &pattern[1..]).collect();
        Self { only: filter(only), never: filter(never) }
    }

    fn has(&self, item: &NamespacedPrimitive) -> bool {
        let matches = |filter: &Option<ToolFilter>| {
            let filter = filter.as_ref();
            filter.is_some_and(|filter| {
                filter.allows(&item.documented_name) || filter.allows(&item.name)
            })
        };
        matches(&self.only) && !matches(&self.never)
    }
}

struct Primitives<'a> {
    namespace: &'a str,
    part: &'a ServerView,
    /// Maximum length of a tool name in bytes.
    limit: usize,
    claims: NamespacePrefixes<'a>,
}

impl Primitives<'_> {
    fn items(&self) -> impl Iterator<Item = NamespacedPrimitive> {
        let Self { part, .. } = *self;
        let tools = part.tools.iter().map(|t| {
            let (definition, own) = (&t.definition, &t.id.tool);
            let name = ExposedName::namespaced(self.namespace, &t.id, self.limit).to_string();
            let full = namespaced_name(self.namespace, own);
            let has_hash = name != full;
            let is_other = self.is_other(&full, |full| {
                mcp_workbench_names::is_unambiguous_tool_name(full, self.limit)
            });
            // The hash is unique, but its prefix may be another namespace's.
            let is_changed = if has_hash { self.is_other(&name, |_| true) } else { is_other };
            let name = if is_changed { t.name.to_string() } else { name };
            let description = definition.description.clone();
            let at = part.server_ref.clone();
            let item = NamespacedPrimitive::new(
                PrimitiveKind::Tool,
                name,
                at,
                own,
                description,
                &definition.raw,
            );
            NamespacedPrimitive { documented_name: full, is_ambiguous: is_other, ..item }
        });
        let resources = part.resources().iter();
        let resources = resources.map(|r| self.address(PrimitiveKind::Resource, &r.uri, &r.raw));
        let templates = part.templates().iter();
        let templates =
            templates.map(|t| self.address(PrimitiveKind::ResourceTemplate, &t.uri, &t.raw));
        let prompts = part.prompts().iter().map(|p| {
            let full = namespaced_name(self.namespace, &p.name);
            let is_other = self.is_other(&full, |full| {
                mcp_workbench_names::is_unambiguous_prompt_name(full, self.limit)
            });
            let at = part.server_ref.clone();
            let ServerRef { toolbox, server } = at.clone();
            let id = ToolId { toolbox, server, tool: p.name.clone() };
            let unique = || ExposedName::registered(&id, self.limit).to_string();
            let name = if is_other { unique() } else { full.clone() };
            let item = NamespacedPrimitive::new(
                PrimitiveKind::Prompt,
                name,
                at,
                &p.name,
                described(&p.raw),
                &p.raw,
            );
            NamespacedPrimitive { documented_name: full, is_ambiguous: is_other, ..item }
        });
        tools.chain(resources).chain(templates).chain(prompts)
    }

    fn address(&self, kind: PrimitiveKind, own: &str, raw: &RawJson) -> NamespacedPrimitive {
        let at = self.part.server_ref.clone();
        let [name, full] = prefixes(self.namespace).map(|prefix| format!("{prefix}{own}"));
        let is_strict = matches!(kind, PrimitiveKind::Resource);
        let is_changed = self.is_other(&name, |uri| {
            mcp_workbench_names::is_unambiguous_uri(uri)
                && (!is_strict || mcp_workbench_names::is_portable_uri(uri))
        });
        let is_other = self.is_other(&full, mcp_workbench_names::is_unambiguous_uri);
        let name = if is_changed { mcp_workbench_names::qualified_uri(&at, own) } else { name };
        let item = NamespacedPrimitive::new(kind, name, at, own, described(raw), raw);
        NamespacedPrimitive { documented_name: full, is_ambiguous: is_other, ..item }
    }

    fn is_other(&self, name: &str, is_free: impl Fn(&str) -> bool) -> bool {
        !is_free(name) || self.claims.is_of_another(name, self.namespace)
    }
}

/// Returns the first non-blank of description, title and name.
fn described(raw: &RawJson) -> Option<String> {
    #[derive(Deserialize)]
    struct Labels {
        #[serde(default)]
        description: Option<String>,
        #[serde(default)]
        title: Option<String>,
        #[serde(default)]
        name: Option<String>,
    }

    let head: Labels = raw.parse().ok()?;
    let texts = [head.description, head.title, head.name];
    texts.into_iter().flatten().find(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests;
