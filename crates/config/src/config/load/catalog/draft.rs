//! A catalog as its own files have it, and then with the servers that they name.

use std::collections::BTreeMap;
use std::path::Path;

use crate::config::keys::raw::RawServer;
use crate::config::keys::server;
use crate::config::load::catalog::tree::{self, Branch, finding};
use crate::config::load::catalog::{CONFIG, TOOL_READER, Text, read_text};
use crate::config::load::shelf::Shelf;
use crate::config::syntax::checks::check_name;
use crate::config::syntax::document::{self, positions};
use crate::config::syntax::entries::Entries;
use crate::config::syntax::finding::{Finding, Severity};
use crate::config::syntax::places::Places;
use crate::config::syntax::reader::{Fields, Reader, Trouble, did_you_mean, listed};
use crate::name::{ServerName, ServerRef, ToolboxName};
use crate::settings::{
    Catalog, CatalogCategory, CatalogService, Config, Launch, MACROS, ServerConfig, ToolboxConfig,
};

/// A catalog whose services do not have their servers yet.
pub(crate) struct Draft {
    /// `_config.yaml` and its text.
    pub(crate) config: Option<(String, String)>,
    /// True if that, or the folder as a whole, is there and cannot be used.
    pub(crate) is_broken: bool,
    categories: Vec<Category>,
    /// The things that are wrong or odd in other files.
    pub(crate) findings: Vec<Finding>,
}

struct Category {
    path: String,
    name: String,
    description: String,
    services: Vec<Service>,
}

struct Service {
    path: String,
    name: String,
    description: String,
    server: Named,
    tools: Vec<String>,
    spelled: BTreeMap<String, String>,
}

/// The server that has the tools of a service, as the service names it.
enum Named {
    /// The server's name, with what to say if there is none of that name.
    Server(String, Finding),
    /// Nothing that could be used.
    Nothing(Trouble),
}

/// Where the services of a catalog stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    /// The catalog is the configuration, and each service is a server of its own.
    Catalog,
    /// A file names the catalog, most of whose services are servers of that file.
    File,
}

impl Draft {
    /// Reads everything but the files of tools.
    pub(crate) fn read(shelf: &dyn Shelf) -> Self {
        let mut findings = Vec::new();
        let root = tree::read(shelf, &mut findings);
        let mut categories = Vec::new();
        for branch in root.folders {
            categories.extend(category(branch, &mut findings));
        }
        Self { config: root.about, is_broken: root.is_broken, categories, findings }
    }

    /// The names of services whose server `is_ours` or cannot be known; that is what their servers
    /// are called.
    pub(crate) fn services(&self, is_ours: impl Fn(&str) -> bool) -> Vec<String> {
        let services = self.categories.iter().flat_map(|category| &category.services);
        let ours = services.filter(|service| match &service.server {
            Named::Server(name, _) => is_ours(name),
            Named::Nothing(_) => true,
        });
        ours.map(|service| service.name.clone()).collect()
    }

    /// Returns a test that is `true` for the name of a server that any service has, and for every
    /// name if some service cannot be read, for nobody knows its server.
    pub(crate) fn wants(&self) -> impl Fn(&str) -> bool {
        let is_wrong = self.findings.iter().any(|finding| finding.severity == Severity::Error);
        move |name| is_wrong || !self.services(|server| server == name).is_empty()
    }

    /// Gives each service its server: one of `own`, which becomes part of a toolbox of the
    /// category's name, or one that the configuration has.
    pub(crate) fn placed(
        self,
        own: &OwnServers,
        folder: &Path,
        home: Home,
        config: &mut Config,
    ) -> Placed {
        let places = config.toolboxes.iter().flat_map(|toolbox| {
            let servers = toolbox.servers.iter();
            servers.map(|s| ServerRef { toolbox: toolbox.name.clone(), server: s.name.clone() })
        });
        let (places, findings) = (places.collect(), self.findings);
        let mut placing = Placing { own, config, home, places, findings, disabled: Vec::new() };
        let categories = self.categories.into_iter();
        let categories: Vec<_> =
            categories.filter_map(|category| placing.category(category)).collect();
        let Placing { mut findings, disabled, .. } = placing;
        let is_wrong = findings.iter().any(|finding| finding.severity == Severity::Error);
        if categories.is_empty() && !is_wrong && !own.is_wrong() {
            let message = "no tools".to_owned();
            let hint = "a tool is a file `<category>/<service>/<tool>.yaml`, beside a \
                        `_service.yaml` that names its `mcp_server`";
            findings.push(finding(Severity::Error, "", message, hint));
        }
        // Where something is wrong, what the file has besides can be served.
        let is_empty = categories.is_empty() && (!is_wrong || config.toolboxes.is_empty());
        let catalog = Catalog { folder: folder.to_owned(), categories, reader: TOOL_READER };
        Placed { catalog, findings, disabled, is_refused: self.is_broken || is_empty }
    }
}

/// The outcome of placing a draft.
pub(crate) struct Placed {
    pub(crate) catalog: Catalog,
    pub(crate) findings: Vec<Finding>,
    /// The services whose servers are switched off.
    pub(crate) disabled: Vec<(ToolboxName, ServerName)>,
    /// True if what is wrong costs more than single services, tools and descriptions.
    pub(crate) is_refused: bool,
}

fn category(branch: Branch, findings: &mut Vec<Finding>) -> Option<Category> {
    if is_left_out(&branch, findings) {
        return None;
    }
    let Branch { path, name, about, is_broken, folders, .. } = branch;
    let file = about.as_ref().map_or_else(|| format!("{path}/_category.yaml"), |a| a.0.clone());
    let read = about.map(|about| read_about(&about, findings));
    let (said, at) = read.unwrap_or_default();
    let description = said.description.unwrap_or_default();
    if description.is_empty() && !is_broken && !said.is_wrong {
        let hint = "write `description: …` into it: a category is chosen by it";
        findings.push(missing(&file, at, hint));
    }
    if let Some((key, position)) = said.server {
        let message = format!("ignored: `{key}` stands in the `_service.yaml` of a service");
        findings.push(Finding {
            position: Some(position),
            path: "mcp_server".to_owned(),
            ..finding(Severity::Warning, &file, message, "")
        });
    }
    let is_empty = folders.is_empty();
    let services: Vec<_> = folders.into_iter().filter_map(|b| service(b, findings)).collect();
    if is_empty && !is_broken {
        let message = "left out: it has no services, which are folders in it".to_owned();
        findings.push(finding(Severity::Warning, &path, message, ""));
    }
    (!services.is_empty()).then_some(Category { path, name, description, services })
}

/// Returns `true` if nothing in a folder is of a catalog, which is said of the outermost.
fn is_left_out(branch: &Branch, findings: &mut Vec<Finding>) -> bool {
    if branch.is_foreign() {
        let message = "ignored: nothing in it is of a catalog".to_owned();
        findings.push(finding(Severity::Warning, &branch.path, message, ""));
    }
    branch.is_foreign()
}

fn service(branch: Branch, findings: &mut Vec<Finding>) -> Option<Service> {
    if is_left_out(&branch, findings) {
        return None;
    }
    let Branch { path, name, about, is_broken, folders: _, tools, spelled } = branch;
    let file = about.as_ref().map_or_else(|| format!("{path}/_service.yaml"), |a| a.0.clone());
    let read = about.map(|about| read_about(&about, findings));
    let (said, at) = read.unwrap_or_default();
    let description = said.description.unwrap_or_default();
    if description.is_empty() && !is_broken && !said.is_wrong {
        let hint = "write `description: …` into it: a service is chosen by it";
        findings.push(missing(&file, at, hint));
    }
    if said.server.is_none() && !is_broken && !said.is_wrong {
        let message = "expected an `mcp_server`".to_owned();
        let hint = "write `mcp_server: …`, the name of a server in `mcp_servers` of `_config.yaml`";
        let missing = finding(Severity::Error, &file, message, hint);
        findings.push(Finding { position: at, ..missing });
    }
    let server = match (trouble(&path, findings), said.server) {
        (Some(trouble), _) => Named::Nothing(trouble),
        (None, Some((server, position))) => {
            let unknown = Finding {
                position: Some(position),
                path: "mcp_server".to_owned(),
                ..finding(Severity::Error, &file, String::new(), "")
            };
            Named::Server(server, unknown)
        }
        // It would have been reported.
        (None, None) => return None,
    };
    if tools.is_empty() && matches!(server, Named::Server(..)) {
        let message = "left out: it has no tools, which are files in it".to_owned();
        findings.push(finding(Severity::Warning, &path, message, ""));
    }
    Some(Service { path, name, description, server, tools, spelled })
}

/// Returns what is wrong with the folder of a service or with its `_service.yaml`, if anything is.
fn trouble(path: &str, findings: &[Finding]) -> Option<Trouble> {
    let is_its = |file: &str| {
        let inside = file.strip_prefix(path).and_then(|rest| rest.strip_prefix('/'));
        file == path || inside.and_then(tree::stem) == Some("_service")
    };
    let is_wrong = |finding: &&Finding| {
        finding.severity == Severity::Error && finding.file.as_deref().is_some_and(is_its)
    };
    findings.iter().find(is_wrong).map(told)
}

/// Says why a service cannot be used, for agents and the log.
fn told(finding: &Finding) -> Trouble {
    let Finding { file, path, message, hint, .. } = finding;
    let file = file.as_deref().map(|file| format!("`{file}` is wrong: ")).unwrap_or_default();
    let place = if path.is_empty() { String::new() } else { format!("`{path}`: ") };
    let hint = hint.clone().unwrap_or_else(|| {
        "correct the file; `mcp-workbench check` says where it is wrong".to_owned()
    });
    Trouble { reason: format!("{file}{place}{message}"), hint }
}

/// The description and the server of a folder, as its file has them.
#[derive(Default)]
struct About {
    description: Option<String>,
    /// The server, and where it stands.
    server: Option<(String, (usize, usize))>,
    /// `true` if something in it is wrong, which has been reported.
    is_wrong: bool,
}

/// The keys of such a file, and the offset of the server.
type Keys = (Option<String>, Option<(String, usize)>);

impl About {
    fn keys(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Keys {
        let description = fields.take("description").and_then(|node| reader.string(&node));
        let server = fields.take("mcpServer").and_then(|node| reader.string(&node));
        let server = server.filter(|server| !server.value.trim().is_empty());
        (
            description.map(|text| text.value.trim().to_owned()),
            server.map(|server| (server.value, server.spot.offset)),
        )
    }
}

/// Reads such a file; and where it begins, if it is there.
fn read_about(
    (file, text): &(String, String),
    findings: &mut Vec<Finding>,
) -> (About, Option<(usize, usize)>) {
    let Text { value, findings: found, .. } = read_text(file, text, None, |root, reader| {
        if root.is_null() {
            return None;
        }
        let mut fields = reader.fields(root)?;
        let keys = About::keys(&mut fields, reader);
        fields.refuse_unknown(reader, |_| None);
        Some(keys)
    });
    let (description, server) = value.unwrap_or_default();
    let position = |at| positions(document::without_mark(text), &[at]).first().copied();
    let server = server.and_then(|(name, at)| Some((name, position(at)?)));
    let is_wrong = found.iter().any(|finding| finding.severity == Severity::Error);
    findings.extend(found);
    (About { description, server, is_wrong }, Some((1, 1)))
}

fn missing(file: &str, position: Option<(usize, usize)>, hint: &str) -> Finding {
    let missing = finding(Severity::Warning, file, "expected a `description`".to_owned(), hint);
    Finding { position, ..missing }
}

/// The servers of a catalog's own `_config.yaml`.
#[derive(Default)]
pub(crate) struct OwnServers(Vec<(String, server::Checked)>);

impl OwnServers {
    /// Checks them; of one that `is_wanted` by no service it is said that it has no effect.
    pub(crate) fn check(
        servers: Entries<RawServer>,
        is_wanted: impl Fn(&str) -> bool,
        places: &Places<'_>,
        reader: &mut Reader<'_>,
    ) -> Self {
        let servers = servers.0.into_iter().map(|(name, raw)| {
            check_name(&name, "server", reader);
            let checked = server::check(&name, raw, places, reader);
            if !is_wanted(&name.value) && !matches!(checked, server::Checked::Off) {
                let hint = "name it as `mcp_server` in the `_service.yaml` of a service";
                reader.warn(&name.spot, "no service has this server", Some(hint.to_owned()));
            }
            (name.value, checked)
        });
        Self(servers.collect())
    }

    fn get(&self, name: &str) -> Option<&server::Checked> {
        self.0.iter().rev().find_map(|(own, server)| (own == name).then_some(server))
    }

    /// Returns `true` if there is one of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    fn is_wrong(&self) -> bool {
        self.0.iter().any(|(_, server)| matches!(server, server::Checked::Wrong))
    }
}

/// Where the server of a service is.
enum Found {
    Here(Box<ServerConfig>),
    At(ServerRef),
    Off,
    /// Nowhere, for this reason.
    Nowhere(Trouble),
}

struct Placing<'a> {
    own: &'a OwnServers,
    config: &'a mut Config,
    home: Home,
    /// The servers that it has without the catalog.
    places: Vec<ServerRef>,
    findings: Vec<Finding>,
    disabled: Vec<(ToolboxName, ServerName)>,
}

impl Placing<'_> {
    fn category(&mut self, category: Category) -> Option<CatalogCategory> {
        let Category { path, name, description, services } = category;
        let toolbox = ToolboxName::new(&name);
        let (mut placed, mut servers) = (Vec::new(), Vec::new());
        for service in services {
            let at = match self.find(&service) {
                Found::Here(found) => {
                    let server = ServerName::new(&service.name);
                    let at = ServerRef { toolbox: toolbox.clone(), server: server.clone() };
                    let include = Some(service.tools.clone());
                    servers.push(ServerConfig { name: server, include, ..*found });
                    at
                }
                Found::At(at) => at,
                Found::Off => {
                    let message = "left out: its server is disabled".to_owned();
                    self.findings.push(finding(Severity::Warning, &service.path, message, ""));
                    self.disabled.push((toolbox.clone(), ServerName::new(&service.name)));
                    continue;
                }
                Found::Nowhere(trouble) if self.home == Home::Catalog => {
                    let server = ServerName::new(&service.name);
                    let at = ServerRef { toolbox: toolbox.clone(), server: server.clone() };
                    let Trouble { reason, hint } = trouble;
                    let include = Some(service.tools.clone());
                    let broken = ServerConfig::new(server, Launch::Broken { reason, hint });
                    servers.push(ServerConfig { include, ..broken });
                    at
                }
                // The tools of the file's servers are served without it.
                Found::Nowhere(_) => continue,
            };
            let Service { path, name, description, server: _, tools, spelled } = service;
            if !tools.is_empty() {
                placed.push(CatalogService { name, description, at, tools, path, spelled });
            }
        }
        servers.retain(|server| {
            let has_tools = server.include.as_ref().is_some_and(|tools| !tools.is_empty());
            has_tools || matches!(server.launch, Launch::Broken { .. })
        });
        if !servers.is_empty() && self.config.toolbox(&name).is_some() {
            let message = format!("left out: there is a toolbox `{name}` too");
            let hint = "rename one of the two";
            self.findings.push(finding(Severity::Error, &path, message, hint));
            return None;
        }
        if !servers.is_empty() {
            let described = (!description.is_empty()).then(|| description.clone());
            let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
            self.config.toolboxes.push(ToolboxConfig {
                name: toolbox,
                description: described
                    .unwrap_or_else(|| format!("Tools of {}", listed(&names, "and"))),
                namespace: name.clone(),
                servers,
            });
        }
        (!placed.is_empty()).then_some(CatalogCategory { name, description, services: placed })
    }

    fn find(&mut self, service: &Service) -> Found {
        let (name, unknown) = match &service.server {
            Named::Server(name, unknown) => (name, unknown),
            Named::Nothing(trouble) => return Found::Nowhere(trouble.clone()),
        };
        match self.own.get(name) {
            Some(server::Checked::On(server)) => return Found::Here(server.clone()),
            Some(server::Checked::Off) => return Found::Off,
            Some(server::Checked::Wrong) => {
                let at = format!("mcp_servers.{name}");
                let wrong = finding(Severity::Error, CONFIG, "it cannot be used".to_owned(), "");
                return Found::Nowhere(told(&Finding { path: at, ..wrong }));
            }
            None => {}
        }
        let all = &self.places;
        let full = |at: &&ServerRef| format!("{}/{}", at.toolbox, at.server) == *name;
        let whole = |at: &&ServerRef| at.toolbox.as_str() == name && at.server.as_str() == name;
        let named: Vec<&ServerRef> = all.iter().filter(|at| at.server.as_str() == name).collect();
        let found = all.iter().find(full).or_else(|| all.iter().find(whole));
        if let Some(at) = found.or(match named.as_slice() {
            [only] => Some(*only),
            _ => None,
        }) {
            return Found::At(at.clone());
        }
        let (message, hint) = if name == MACROS || name.ends_with(&format!("/{MACROS}")) {
            let message = format!("there is no server `{name}`: macros have no place in a catalog");
            (message, "agents have them in their toolboxes".to_owned())
        } else if named.is_empty() {
            let own = self.own.0.iter().map(|(name, _)| name.clone());
            let mut known: Vec<String> =
                own.chain(all.iter().map(|at| at.server.to_string())).collect();
            known.sort_unstable();
            known.dedup();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let hint = did_you_mean(name, &known).unwrap_or_else(|| match known.as_slice() {
                [] => "write it under `mcp_servers` of `_config.yaml`".to_owned(),
                known => format!("expected {}", listed(known, "or")),
            });
            (format!("there is no server `{name}` in `mcp_servers`"), hint)
        } else {
            let places: Vec<String> =
                named.iter().map(|at| format!("{}/{}", at.toolbox, at.server)).collect();
            let message = format!("there are several servers `{name}`");
            (message, format!("write {}", listed(&places, "or")))
        };
        let unknown = Finding { message, hint: Some(hint), ..unknown.clone() };
        let trouble = told(&unknown);
        self.findings.push(unknown);
        Found::Nowhere(trouble)
    }
}
