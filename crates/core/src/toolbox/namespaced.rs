//! Everything that toolboxes show under names with a namespace in front, as `activate` mode has it.
//!
//! A name belongs to the first of its namespace that has it, in the order of the configuration; what
//! comes later is discarded. What would have a name that begins as another namespace's do, or could
//! mean something else, is shown under its full name. An address has its namespace as a part of its scheme, which strict clients accept; the
//! documented form with a `_` is understood too. Names are looked up, never taken apart.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;

use crate::catalog::fits;
use crate::name::{
    self, ExposedName, ServerRef, ToolId, ToolboxName, in_namespace, scheme_of_namespace,
};
use crate::policy::ToolFilter;
use crate::raw::Raw;
use crate::settings::Config;
use crate::toolbox::{Part, View};

/// The name of the one tool of our own.
pub const TOOLMAN_ACTIVATE: &str = "toolman_activate";

/// The kind of a primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A tool.
    Tool,
    /// A resource.
    Resource,
    /// A template of resources.
    Template,
    /// A prompt.
    Prompt,
}

impl Kind {
    /// The word for one primitive of this kind.
    pub fn word(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Resource => "resource",
            Self::Template => "resource template",
            Self::Prompt => "prompt",
        }
    }

    /// The member of a definition that names it.
    fn key(self) -> &'static str {
        match self {
            Self::Tool | Self::Prompt => "name",
            Self::Resource => "uri",
            Self::Template => "uriTemplate",
        }
    }

    /// Kinds that share their names: a template is told from a resource by its braces alone.
    fn family(self) -> Self {
        if self == Self::Template { Self::Resource } else { self }
    }
}

/// One primitive under its name.
#[derive(Debug)]
pub struct Item {
    /// Its kind.
    pub kind: Kind,
    /// Its name, namespace included; for a resource its address.
    pub name: String,
    /// The documented form of that, `<namespace>_<own name>`, however long it is. It is understood
    /// for the name wherever it means one primitive alone.
    pub full: String,
    /// `true` if the documented form could mean something else, and so is not understood.
    is_other: bool,
    /// The server that has it.
    pub at: ServerRef,
    /// The server's own name for it.
    pub own: String,
    /// The server's own description of it.
    pub description: Option<String>,
    /// `true` if it is active from the start.
    pub starts_active: bool,
    raw: Raw,
    defined: OnceLock<Raw>,
}

impl Item {
    /// A primitive under its name, which is not active unless it is said to be.
    pub fn new(
        kind: Kind,
        name: String,
        at: ServerRef,
        own: &str,
        description: Option<String>,
        raw: &Raw,
    ) -> Self {
        Self {
            kind,
            full: name.clone(),
            is_other: false,
            name,
            at,
            own: own.to_owned(),
            description,
            starts_active: false,
            raw: raw.clone(),
            defined: OnceLock::new(),
        }
    }

    /// Its definition under its name, otherwise as its server wrote it.
    pub fn definition(&self) -> &Raw {
        self.defined.get_or_init(|| {
            if self.name == self.own {
                return self.raw.clone();
            }
            let name = Raw::encode(&self.name);
            self.raw.with_member(self.kind.key(), &name).unwrap_or_else(|| self.raw.clone())
        })
    }

    /// Which tool it is, if it is one.
    pub fn tool(&self) -> ToolId {
        let ServerRef { toolbox, server } = self.at.clone();
        ToolId { toolbox, server, tool: self.own.clone() }
    }
}

/// A primitive whose name was taken already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discarded {
    /// Its kind.
    pub kind: Kind,
    /// The name that two have.
    pub name: String,
    /// Who loses it.
    pub loser: ServerRef,
    /// Who has it.
    pub winner: ServerRef,
}

impl fmt::Display for Discarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, loser: ServerRef { toolbox, server }, winner } = self;
        write!(f, "{} `{name}` of server `{server}` in `{toolbox}` is left out: ", kind.word())?;
        let ServerRef { toolbox, server } = winner;
        write!(f, "server `{server}` in `{toolbox}` comes first and has the same name")
    }
}

/// Where an address may lead: a server, its own address, and the primitive it is known by, if any.
pub type Target<'a> = (ServerRef, String, Option<&'a Item>);

/// Everything there is, by name; immutable.
#[derive(Debug, Default)]
pub struct Namespaced {
    /// In the order of the configuration, then of each server's own lists.
    pub items: Vec<Item>,
    /// The primitives that lost their names to something before them.
    pub discarded: Vec<Discarded>,
    by_name: HashMap<(Kind, String), usize>,
    /// Documented names that are not the names; none where several primitives have the same.
    by_full: HashMap<(Kind, String), Option<usize>>,
    owners: Vec<Owner>,
}

/// The beginnings of names that belong to namespaces.
#[derive(Clone, Copy)]
struct Claims<'a>(&'a Config);

impl Claims<'_> {
    /// Returns `true` if a name begins as those of another namespace do: of beginnings that are alike
    /// the longest counts, and one that two namespaces have is neither's.
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

/// How addresses of a namespace begin, and how its names do.
fn prefixes(namespace: &str) -> [String; 2] {
    [scheme_of_namespace(namespace), in_namespace(namespace, "")]
}

/// A server, and how its addresses begin.
#[derive(Debug)]
struct Owner {
    at: ServerRef,
    /// The prefix of addresses, and the documented form of it.
    prefixes: [String; 2],
    /// `true` if another namespace has the same beginning of addresses.
    is_contested: bool,
    has_resources: bool,
}

impl Owner {
    /// The server's own address, if this is one with its namespace.
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

impl Namespaced {
    /// Names everything that the toolboxes' views show.
    pub fn new(config: &Config, view: impl Fn(&ToolboxName) -> Arc<View>) -> Self {
        let mut all = Self::default();
        let active = StartsActive::new(&config.active_toolsets);
        for toolbox in &config.toolboxes {
            let view = view(&toolbox.name);
            for server in &toolbox.servers {
                let part = view.part(server.name.as_str());
                let (namespace, limit) = (toolbox.namespace.as_str(), config.max_tool_name_length);
                let claims = Claims(config);
                let primitives = part.map(|part| Primitives { namespace, part, limit, claims });
                let items = primitives.iter().flat_map(Primitives::items);
                for mut item in items {
                    item.starts_active = item.kind == Kind::Prompt || active.has(&item);
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

    /// Takes in a primitive, unless its name is taken.
    pub fn push(&mut self, item: Item) {
        let key = (item.kind.family(), item.name.clone());
        if let Some(winner) = self.by_name.get(&key).map(|index| self.items[*index].at.clone()) {
            let (kind, name) = (item.kind, item.name);
            self.discarded.push(Discarded { kind, name, loser: item.at, winner });
        } else {
            if item.full != item.name && !item.is_other {
                let full = (key.0, item.full.clone());
                let is_taken = self.by_full.contains_key(&full);
                self.by_full.insert(full, (!is_taken).then_some(self.items.len()));
            }
            self.by_name.insert(key, self.items.len());
            self.items.push(item);
        }
    }

    /// The tool, the prompt, or the resource or template of this name, or with this documented one.
    pub fn get(&self, kind: Kind, name: &str) -> Option<&Item> {
        let key = (kind.family(), name.to_owned());
        let exact = self.by_name.get(&key).copied();
        Some(&self.items[exact.or_else(|| *self.by_full.get(&key)?)?])
    }

    /// Everything whose name, or documented name, matches a glob.
    pub fn matching(&self, pattern: &str) -> impl Iterator<Item = &Item> {
        let filter = ToolFilter::new(&[pattern.to_owned()]);
        let matches = move |item: &&Item| filter.allows(&item.name) || filter.allows(&item.full);
        self.items.iter().filter(matches)
    }

    /// Returns where an address leads: to the resource of that name, else to the templates that it
    /// may have been made of, else to every server whose namespace it has.
    ///
    /// Results speak of addresses as their server writes them, so an address without a namespace
    /// leads to whoever lists it, and else to every server that has resources.
    pub fn address(&self, uri: &str) -> Vec<Target<'_>> {
        if let Some(item) = self.get(Kind::Resource, uri) {
            return vec![(item.at.clone(), item.own.clone(), Some(item))];
        }
        if name::has_our_scheme(uri) {
            let mut owners = self.owners.iter();
            let whose = owners.find_map(|owner| {
                let own = uri.strip_prefix(&name::uri_prefix(&owner.at))?;
                Some((owner.at.clone(), own.to_owned(), None))
            });
            return whose.into_iter().collect();
        }
        let with_namespace = self.owners.iter().filter(|owner| owner.has_namespace());
        let mut named: Vec<_> =
            with_namespace.filter_map(|owner| Some((owner, owner.own(uri)?))).collect();
        // Where one namespace begins as another one goes on, the longer is meant.
        let shortest = named.iter().map(|(_, own)| own.len()).min();
        named.retain(|(_, own)| Some(own.len()) == shortest);
        let is_contested =
            |owner: &Owner| owner.is_contested && uri.starts_with(&owner.prefixes[0]);
        if named.is_empty() && self.owners.iter().any(is_contested) {
            return Vec::new();
        }
        if named.is_empty() {
            let listed = self.items.iter().filter(|item| item.kind == Kind::Resource);
            let listed = listed.filter(|item| item.own == uri);
            let listed: Vec<_> =
                listed.map(|item| (item.at.clone(), uri.to_owned(), Some(item))).collect();
            if !listed.is_empty() {
                return listed;
            }
            let may_have_it = |owner: &&Owner| !owner.has_namespace() || owner.has_resources;
            named = self.owners.iter().filter(may_have_it).map(|owner| (owner, uri)).collect();
            // What is meant by names without a namespace is most likely.
            named.sort_by_key(|(owner, _)| owner.has_namespace());
        }
        let templates = self.items.iter().filter(|item| item.kind == Kind::Template);
        let made = templates.filter_map(|item| {
            let (_, own) = named.iter().find(|(owner, _)| owner.at == item.at)?;
            fits(&item.own, own).then(|| (item.at.clone(), (*own).to_owned(), Some(item)))
        });
        let made: Vec<_> = made.collect();
        if !made.is_empty() {
            return made;
        }
        named.into_iter().map(|(owner, own)| (owner.at.clone(), own.to_owned(), None)).collect()
    }

    /// Returns the patterns that match nothing: no primitive that is here, and none that a server may
    /// have which has not been listed.
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

    /// Returns a server's address as agents know it: as it is listed, else with its namespace.
    pub fn exposed_uri(&self, server_ref: &ServerRef, uri: &str) -> String {
        let is_it = |item: &&Item| {
            item.kind.family() == Kind::Resource && item.at == *server_ref && item.own == uri
        };
        if let Some(item) = self.items.iter().find(is_it) {
            return item.name.clone();
        }
        let owner = self.owners.iter().find(|owner| owner.at == *server_ref);
        match owner {
            Some(owner) if !owner.is_contested => format!("{}{uri}", owner.prefixes[0]),
            _ => name::full_address(server_ref, uri),
        }
    }

    /// Returns `true` if a name begins as those of another namespace do than this server's.
    pub fn is_of_another(&self, config: &Config, name: &str, at: &ServerRef) -> bool {
        let toolbox = config.toolbox(at.toolbox.as_str());
        let namespace = toolbox.map(|toolbox| toolbox.namespace.as_str()).unwrap_or_default();
        Claims(config).is_of_another(name, namespace)
    }
}

/// The globs over names that say what is active from the start (`activeToolsets`).
struct StartsActive {
    only: Option<ToolFilter>,
    never: Option<ToolFilter>,
}

impl StartsActive {
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

    /// Returns true if the patterns name a primitive, by its documented name or by the one it has here.
    fn has(&self, item: &Item) -> bool {
        let matches = |filter: &Option<ToolFilter>| {
            let filter = filter.as_ref();
            filter.is_some_and(|filter| filter.allows(&item.full) || filter.allows(&item.name))
        };
        matches(&self.only) && !matches(&self.never)
    }
}

/// The primitives that one server of a toolbox shows.
struct Primitives<'a> {
    namespace: &'a str,
    part: &'a Part,
    /// The most bytes of a tool's name.
    limit: usize,
    claims: Claims<'a>,
}

impl Primitives<'_> {
    fn items(&self) -> impl Iterator<Item = Item> {
        let Self { part, .. } = *self;
        let tools = part.tools.iter().map(|t| {
            let (definition, own) = (&t.definition, &t.id.tool);
            let name = ExposedName::in_namespace(self.namespace, &t.id, self.limit).to_string();
            let full = in_namespace(self.namespace, own);
            let has_hash = name != full;
            let is_other = self.is_other(&full, |full| name::is_free_tool(full, self.limit));
            // The hash is nobody else's, but what stands before it may be another namespace's.
            let is_changed = if has_hash { self.is_other(&name, |_| true) } else { is_other };
            let name = if is_changed { t.name.to_string() } else { name };
            let description = definition.description.clone();
            let at = part.server_ref.clone();
            let item = Item::new(Kind::Tool, name, at, own, description, &definition.raw);
            Item { full, is_other, ..item }
        });
        let resources = part.resources().iter();
        let resources = resources.map(|r| self.address(Kind::Resource, &r.uri, &r.raw));
        let templates = part.templates().iter();
        let templates = templates.map(|t| self.address(Kind::Template, &t.uri, &t.raw));
        let prompts = part.prompts().iter().map(|p| {
            let full = in_namespace(self.namespace, &p.name);
            let is_other = self.is_other(&full, |full| name::is_free_prompt(full, self.limit));
            let at = part.server_ref.clone();
            let ServerRef { toolbox, server } = at.clone();
            let id = ToolId { toolbox, server, tool: p.name.clone() };
            let unique = || ExposedName::registered(&id, self.limit).to_string();
            let name = if is_other { unique() } else { full.clone() };
            let item = Item::new(Kind::Prompt, name, at, &p.name, described(&p.raw), &p.raw);
            Item { full, is_other, ..item }
        });
        tools.chain(resources).chain(templates).chain(prompts)
    }

    fn address(&self, kind: Kind, own: &str, raw: &Raw) -> Item {
        let at = self.part.server_ref.clone();
        let [name, full] = prefixes(self.namespace).map(|prefix| format!("{prefix}{own}"));
        let is_changed = self.is_other(&name, name::is_free_address);
        let is_other = self.is_other(&full, name::is_free_address);
        let name = if is_changed { name::full_address(&at, own) } else { name };
        let item = Item::new(kind, name, at, own, described(raw), raw);
        Item { full, is_other, ..item }
    }

    /// Returns `true` if a name could mean something else than what this server calls so.
    fn is_other(&self, name: &str, is_free: impl Fn(&str) -> bool) -> bool {
        !is_free(name) || self.claims.is_of_another(name, self.namespace)
    }
}

/// A few words on a primitive from its definition: its description, its title, or its name.
fn described(raw: &Raw) -> Option<String> {
    #[derive(Deserialize)]
    struct Head {
        #[serde(default)]
        description: Option<String>,
        #[serde(default)]
        title: Option<String>,
        #[serde(default)]
        name: Option<String>,
    }

    let head: Head = raw.parse().ok()?;
    let texts = [head.description, head.title, head.name];
    texts.into_iter().flatten().find(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests;
