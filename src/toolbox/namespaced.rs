//! Everything that toolboxes show under names with a namespace in front, as `activate` mode has it.
//!
//! A name belongs to the first that has it, in the order of the configuration; what comes later is
//! discarded. Names are looked up, never taken apart.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;

use crate::catalog::fits;
use crate::config::{Config, ServerConfig, ToolboxConfig};
use crate::name::{ExposedName, Place, ToolId, ToolboxName, in_namespace};
use crate::policy::ToolFilter;
use crate::raw::Raw;
use crate::toolbox::View;

/// The name of the one tool of our own, which no server's tool may have.
pub const TOOLMAN_ACTIVATE: &str = "toolman_activate";

/// What a thing is.
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
    /// What one of them is called.
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

/// One thing under its name.
#[derive(Debug)]
pub struct Item {
    /// What it is.
    pub kind: Kind,
    /// Its name, namespace included; for a resource its address.
    pub name: String,
    /// Whose it is.
    pub at: Place,
    /// What its server calls it.
    pub own: String,
    /// What its server says of it.
    pub description: Option<String>,
    /// Whether it is active from the start.
    pub starts_active: bool,
    raw: Raw,
    defined: OnceLock<Raw>,
}

impl Item {
    /// A thing under its name, which is not active unless it is said to be.
    pub fn new(
        kind: Kind,
        name: String,
        at: Place,
        own: &str,
        description: Option<String>,
        raw: &Raw,
    ) -> Self {
        Self {
            kind,
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
        let Place { toolbox, server } = self.at.clone();
        ToolId { toolbox, server, tool: self.own.clone() }
    }
}

/// A thing whose name was taken already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discarded {
    /// What it is.
    pub kind: Kind,
    /// The name that two have.
    pub name: String,
    /// Who loses it.
    pub loser: Place,
    /// Who has it; nobody but ourselves where it is `toolman_activate`.
    pub winner: Option<Place>,
}

impl fmt::Display for Discarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, loser: Place { toolbox, server }, winner } = self;
        write!(f, "{} `{name}` of server `{server}` in `{toolbox}` is left out: ", kind.word())?;
        match winner {
            Some(Place { toolbox, server }) => {
                write!(f, "server `{server}` in `{toolbox}` comes first and has the same name")
            }
            None => f.write_str("the workbench's own tool has that name"),
        }
    }
}

/// Where an address may lead: a server, its own address, and the thing it is known by, if any.
pub type Target<'a> = (Place, String, Option<&'a Item>);

/// Everything there is, by name; immutable.
#[derive(Debug, Default)]
pub struct Namespaced {
    /// In the order of the configuration, then of each server's own lists.
    pub items: Vec<Item>,
    /// What lost its name to something before it.
    pub discarded: Vec<Discarded>,
    by_name: HashMap<(Kind, String), usize>,
    /// Every server with what goes before its addresses.
    prefixes: Vec<(Place, String)>,
}

impl Namespaced {
    /// Names everything that the toolboxes' views show.
    pub fn new(config: &Config, view: impl Fn(&ToolboxName) -> Arc<View>) -> Self {
        let mut all = Self::default();
        let patterns = &config.active_toolsets;
        let names_some = patterns.iter().any(|pattern| !pattern.starts_with('!'));
        let active = names_some.then(|| ToolFilter::new(patterns));
        for toolbox in &config.toolboxes {
            let view = view(&toolbox.name);
            for server in &toolbox.servers {
                let things = Things { toolbox, server, view: &view };
                for mut item in things.items(config.max_tool_name_length) {
                    item.starts_active = item.kind == Kind::Prompt
                        || active.as_ref().is_some_and(|active| active.allows(&item.name));
                    all.push(item);
                }
                all.prefixes.push((things.place(), in_namespace(&toolbox.namespace, "")));
            }
        }
        all
    }

    /// Takes in a thing, unless its name is taken.
    pub fn push(&mut self, item: Item) {
        let key = (item.kind.family(), item.name.clone());
        let is_ours = key == (Kind::Tool, TOOLMAN_ACTIVATE.to_owned());
        let winner = self.by_name.get(&key).map(|index| self.items[*index].at.clone());
        if is_ours || winner.is_some() {
            let (kind, name) = (item.kind, item.name);
            self.discarded.push(Discarded { kind, name, loser: item.at, winner });
        } else {
            self.by_name.insert(key, self.items.len());
            self.items.push(item);
        }
    }

    /// The tool, the prompt, or the resource or template of this name.
    pub fn get(&self, kind: Kind, name: &str) -> Option<&Item> {
        Some(&self.items[*self.by_name.get(&(kind.family(), name.to_owned()))?])
    }

    /// Everything whose name matches a glob.
    pub fn matching(&self, pattern: &str) -> impl Iterator<Item = &Item> {
        let filter = ToolFilter::new(&[pattern.to_owned()]);
        self.items.iter().filter(move |item| filter.allows(&item.name))
    }

    /// Where an address leads: to the resource of that name, else to the templates that it may
    /// have been made of, else to every server whose namespace it has, for an address may have
    /// been told in a result alone.
    pub fn address(&self, uri: &str) -> Vec<Target<'_>> {
        if let Some(item) = self.get(Kind::Resource, uri) {
            return vec![(item.at.clone(), item.own.clone(), Some(item))];
        }
        let owners = self.prefixes.iter().filter_map(|(place, prefix)| {
            uri.strip_prefix(prefix.as_str()).map(|own| (place, own))
        });
        let owners: Vec<_> = owners.collect();
        let templates = self.items.iter().filter(|item| item.kind == Kind::Template);
        let made = templates.filter_map(|item| {
            let (_, own) = owners.iter().find(|(place, _)| **place == item.at)?;
            fits(&item.own, own).then(|| (item.at.clone(), (*own).to_owned(), Some(item)))
        });
        let made: Vec<_> = made.collect();
        if !made.is_empty() {
            return made;
        }
        owners.into_iter().map(|(place, own)| (place.clone(), own.to_owned(), None)).collect()
    }

    /// The name of a server's address: of one that it lists, or that only it can make sense of.
    /// What is on the web, and no resource, stays as it is.
    pub fn exposed_uri(&self, place: &Place, uri: &str) -> String {
        let prefix = self.prefixes.iter().find(|(at, _)| at == place);
        let Some((_, prefix)) = prefix.filter(|(_, prefix)| !prefix.is_empty()) else {
            return uri.to_owned();
        };
        let exposed = format!("{prefix}{uri}");
        let is_on_the_web = uri.starts_with("https://") || uri.starts_with("http://");
        if !is_on_the_web || self.address(&exposed).iter().any(|(.., item)| item.is_some()) {
            exposed
        } else {
            uri.to_owned()
        }
    }
}

/// What one server of a toolbox shows.
struct Things<'a> {
    toolbox: &'a ToolboxConfig,
    server: &'a ServerConfig,
    view: &'a View,
}

impl Things<'_> {
    fn place(&self) -> Place {
        Place { toolbox: self.toolbox.name.clone(), server: self.server.name.clone() }
    }

    fn items(&self, limit: usize) -> impl Iterator<Item = Item> {
        let (view, server, namespace) = (self.view, &self.server.name, &self.toolbox.namespace);
        let tools = view.tools.iter().filter(move |tool| tool.id.server == *server).map(move |t| {
            let name = ExposedName::in_namespace(namespace, &t.id, limit).to_string();
            let definition = &t.definition;
            let description = definition.description.clone();
            Item::new(Kind::Tool, name, self.place(), &t.id.tool, description, &definition.raw)
        });
        let plain = move |kind: Kind, own: &str, raw: &Raw| {
            Item::new(kind, in_namespace(namespace, own), self.place(), own, described(raw), raw)
        };
        let resources = view.resources.iter().filter(move |shown| shown.server == *server);
        let resources =
            resources.map(move |r| plain(Kind::Resource, &r.definition.uri, &r.definition.raw));
        let templates = view.templates.iter().filter(move |shown| shown.server == *server);
        let templates =
            templates.map(move |t| plain(Kind::Template, &t.definition.uri, &t.definition.raw));
        let prompts = view.prompts.iter().filter(move |shown| shown.server == *server);
        let prompts =
            prompts.map(move |p| plain(Kind::Prompt, &p.definition.name, &p.definition.raw));
        tools.chain(resources).chain(templates).chain(prompts)
    }
}

/// What a definition says of its thing: its description, its title, or its name.
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
