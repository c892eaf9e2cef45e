//! Carries the rules of clients about their servers' tools over to the configuration.

use std::path::Path;

use serde_json::Value;

use crate::authoring::client_files::{ClientApp, FileSyntax};
use crate::authoring::import::ImportCandidates;
use crate::authoring::import::client_rules::{
    ClientRule, RuleAction, RuleSource, RuleTarget, claude_rules, gemini_project_policies,
    rule_sources,
};
use crate::authoring::setup::client_file_editor::ClientFileEditor;
use crate::cli::onboarding::setup::clients::{self, ClientFile};
use crate::cli::servers::trial_run::TrialRun;
use mcp_workbench_config::env::{EnvSource, ProcessEnv};

/// The rules of all clients that are set up.
#[derive(Debug, Default)]
pub(super) struct ClientRules {
    rules: Vec<FoundRule>,
    /// The ID of each client, and its file of servers as messages show it.
    files: Vec<(&'static str, String)>,
    /// The ID of each client with rules that cannot be read, and the reason.
    unreadable: Vec<(&'static str, String)>,
}

#[derive(Debug)]
struct FoundRule {
    client: &'static str,
    title: &'static str,
    /// For messages.
    file: String,
    rule: ClientRule,
}

impl FoundRule {
    fn cause(&self) -> String {
        let Self { title, file, rule: ClientRule { text, place, .. }, .. } = self;
        format!("`{text}` in `{place}` of {title} (`{file}`)")
    }
}

/// A rule that applies to a server.
#[derive(Debug)]
struct Applied<'a> {
    /// The index of the candidate.
    server: usize,
    found: &'a FoundRule,
    target: RuleTarget,
    /// The action next to the other rules of the client.
    action: RuleAction,
}

/// Drops rules that another rule of the same client replaces.
fn applied(server: usize, rules: Vec<(&FoundRule, RuleTarget)>) -> Vec<Applied<'_>> {
    let action = |found: &FoundRule, target: &RuleTarget| {
        let others = rules.iter().filter(|(other, _)| other.client == found.client);
        let others: Vec<_> = others.map(|(other, target)| (&other.rule, target)).collect();
        found.rule.action_among(target, &others)
    };
    let actions: Vec<_> = rules.iter().map(|(found, target)| action(found, target)).collect();
    let applied = rules.into_iter().zip(actions).filter_map(|((found, target), action)| {
        Some(Applied { server, found, target, action: action? })
    });
    applied.collect()
}

impl ClientRules {
    pub(super) fn read(files: &[ClientFile]) -> Self {
        let mut all = Self::default();
        for file in files {
            let id = file.program.id;
            all.files.push((id, file.shown.clone()));
            let own = file.text.as_deref().map(|text| parse(file.program.syntax, text));
            let own = own.and_then(Result::ok).unwrap_or_default();
            let folder = file.path.parent().unwrap_or(Path::new(""));
            for source in rule_sources(id) {
                if source.file.is_empty() {
                    all.add(file, &file.shown, source.read(&own));
                } else {
                    all.add_file(file, &folder.join(source.file), &source);
                }
            }
            if id == "gemini" {
                all.add_projects_of_gemini(file, &folder.join("projects.json"));
            }
            let projects = projects(&own).filter(|_| id == "claude-code");
            for project in projects {
                for name in [".claude/settings.json", ".claude/settings.local.json"] {
                    let path = project.join(name);
                    for source in &claude_rules("") {
                        all.add_file(file, &path, source);
                    }
                }
            }
        }
        all
    }

    /// Reads the policies of the projects that Gemini CLI has listed in the file at `path`.
    fn add_projects_of_gemini(&mut self, client: &ClientFile, path: &Path) {
        let text = clients::read(path).ok().flatten().unwrap_or_default();
        let list = parse(FileSyntax::Json, &text).unwrap_or_default();
        let source = gemini_project_policies();
        for project in projects(&list) {
            // The user's own policies are in the home folder.
            if Some(project) != ProcessEnv.home_dir().as_deref() {
                self.add_file(client, &project.join(source.file), &source);
            }
        }
    }

    /// Reads a file, or for `*.toml` all such files of the folder.
    fn add_file(&mut self, client: &ClientFile, path: &Path, source: &RuleSource) {
        if path.ends_with("*.toml") {
            let folder = path.parent().unwrap_or(path);
            for path in clients::toml_files(folder) {
                self.add_file(client, &path, source);
            }
            return;
        }
        let shown = clients::shown(path, ProcessEnv.home_dir().as_deref());
        let syntax = match path.extension().and_then(|ending| ending.to_str()) {
            Some("yaml") => FileSyntax::Yaml,
            Some("toml") => FileSyntax::Toml,
            _ => FileSyntax::Json,
        };
        let text = clients::read(path).transpose();
        match text.map(|text| text.and_then(|text| parse(syntax, &text))) {
            None => {}
            Some(Ok(value)) => self.add(client, &shown, source.read(&value)),
            Some(Err(why)) => {
                let why = format!("its rules in `{shown}` cannot be read: {why}");
                self.unreadable.push((client.program.id, why));
            }
        }
    }

    fn add(&mut self, client: &ClientFile, file: &str, rules: Vec<ClientRule>) {
        let (id, title) = (client.program.id, client.program.title);
        for rule in rules {
            let is_known = self.rules.iter().any(|other| other.client == id && other.rule == rule);
            if !is_known {
                self.rules.push(FoundRule { client: id, title, file: file.to_owned(), rule });
            }
        }
    }

    /// Returns each rule about a candidate, with the tools that it is about.
    fn targets<'a>(
        &'a self,
        gathered: &'a ImportCandidates,
        trial: &'a TrialRun,
    ) -> impl Iterator<Item = Applied<'a>> {
        let covered = gathered.covered_servers();
        // A client whose own file gives the name to another server means that server.
        let is_another = move |client: &str, name: &str, index: usize| {
            let mut own = self.files.iter().filter(|(id, _)| *id == client);
            own.any(|(_, file)| {
                let mut named = covered.iter().filter(|c| c.file == *file && c.name == name);
                named.any(|c| c.server != Some(index))
            })
        };
        let servers = gathered.servers().iter().enumerate();
        servers.flat_map(move |(index, server)| {
            let tools = trial.tools.get(index).map(Vec::as_slice).unwrap_or_default();
            let tools: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
            let mut names = gathered.names(index);
            names.push(&server.name);
            let is_another = &is_another;
            let target = move |found: &'a FoundRule| {
                // A client calls the same server by the names in other files once it has them.
                let mut names = names.iter().filter(|name| !is_another(found.client, name, index));
                let target = names.find_map(|name| found.rule.target(name, &tools))?;
                Some((found, target))
            };
            applied(index, self.rules.iter().filter_map(target).collect())
        })
    }

    /// Returns the candidates that stay with all clients, with the reason: only the client can
    /// apply its rule.
    pub(super) fn servers_that_stay(
        &self,
        gathered: &ImportCandidates,
        trial: &TrialRun,
    ) -> Vec<(usize, String)> {
        let stay = self.targets(gathered, trial).filter(|own| match own.action {
            RuleAction::Partial => true,
            RuleAction::Deny => own.target == RuleTarget::Server,
            RuleAction::Ask | RuleAction::Default | RuleAction::Allow => false,
        });
        let why = |own: &Applied<'_>| format!("the workbench cannot apply {}", own.found.cause());
        stay.map(|own| (own.server, why(&own))).collect()
    }

    /// Hides the tools that a client denies. Returns the tools to confirm, and a line for each rule.
    pub(super) fn carry_over(
        &self,
        gathered: &mut ImportCandidates,
        trial: &TrialRun,
    ) -> (Vec<(usize, String)>, Vec<String>) {
        let (mut hidden, mut confirmed) = (Vec::new(), Vec::new());
        let mut lines = self.limit_lines(gathered);
        for Applied { server: index, found, target, action } in self.targets(gathered, trial) {
            if found.rule.covers_workbench() {
                // The client still applies it to each call through the workbench.
                continue;
            }
            let server = gathered.servers().get(index).map_or("", |server| &server.name);
            let tools = match target {
                RuleTarget::Server => vec!["*".to_owned()],
                RuleTarget::Tools(tools) => tools,
            };
            let names = tools.join("`, `");
            let cause = found.cause();
            match action {
                RuleAction::Deny => {
                    lines
                        .push(format!("`{names}` of `{server}` is hidden in all clients: {cause}"));
                    hidden.push((index, tools.iter().map(|tool| format!("!{tool}")).collect()));
                }
                RuleAction::Ask => {
                    lines.push(format!(
                        "`{names}` of `{server}` needs a confirmation in all clients, and is refused in \
                         clients that cannot ask: {cause}"
                    ));
                    confirmed.extend(tools.into_iter().map(|tool| (index, tool)));
                }
                RuleAction::Allow => lines.push(format!(
                    "`{names}` of `{server}` is no longer allowed without asking: {cause}"
                )),
                RuleAction::Partial | RuleAction::Default => {}
            }
        }
        for (index, filters) in hidden {
            let filters: Vec<String> = filters;
            gathered.hide_tools(index, &filters);
        }
        lines.dedup();
        (confirmed, lines)
    }

    /// Returns a line for each list of tools in the entry of a server.
    fn limit_lines(&self, gathered: &ImportCandidates) -> Vec<String> {
        let mut lines = Vec::new();
        for (index, server) in gathered.servers().iter().enumerate() {
            for (file, filters) in gathered.limits(index) {
                let title = self.files.iter().find(|(_, shown)| shown == file);
                let title = title.and_then(|(id, _)| ClientApp::from_id(id));
                let title = title.map_or("another client", |client| client.title);
                let cause = format!("its entry in {title} (`{file}`)");
                lines.extend(limit_lines(&server.name, filters, &cause));
            }
        }
        lines
    }

    /// Returns why `client` must not get the servers that the configuration has already: a rule of
    /// the client that the configuration doesn't have.
    pub(super) fn missing_rule(&self, client: &str, gathered: &ImportCandidates) -> Option<String> {
        let unreadable = self.unreadable.iter().find(|(id, _)| *id == client);
        if let Some((_, why)) = unreadable {
            return Some(why.clone());
        }
        let existing = gathered.existing_servers();
        let confirmed = gathered.existing_confirmations();
        let own = |names: &[String]| {
            let own = self.rules.iter().filter(|found| found.client == client);
            let target =
                |found: &FoundRule| names.iter().find_map(|name| found.rule.target(name, &[]));
            applied(0, own.filter_map(|found| Some((found, target(found)?))).collect())
        };
        let rules = existing.iter().flat_map(|(names, filters)| {
            own(names).into_iter().map(move |own| (own, names, filters))
        });
        rules.into_iter().find_map(|(Applied { found, target, action, .. }, names, filters)| {
            if found.rule.covers_workbench() && action != RuleAction::Partial {
                return None;
            }
            let tools = match &target {
                RuleTarget::Server => vec!["*".to_owned()],
                RuleTarget::Tools(tools) => tools.clone(),
            };
            let server = names.last().map(String::as_str).unwrap_or_default();
            let (key, wanted): (_, Vec<String>) = match action {
                RuleAction::Allow | RuleAction::Default => return None,
                RuleAction::Deny | RuleAction::Partial => {
                    ("toolFilters", tools.iter().map(|tool| format!("!{tool}")).collect())
                }
                RuleAction::Ask => {
                    let pattern = |tool: &String| format!("{server}:{tool}");
                    ("dangerousTools", tools.iter().map(pattern).collect())
                }
            };
            let there = if key == "toolFilters" { filters } else { &confirmed };
            let missing: Vec<&str> =
                wanted.iter().filter(|rule| !there.contains(rule)).map(String::as_str).collect();
            (!missing.is_empty()).then(|| {
                format!(
                    "the configuration does not have {}: add `{}` to the `{key}` for `{server}` \
                         and run setup again",
                    found.cause(),
                    missing.join("`, `")
                )
            })
        })
    }
}

/// Describes the filters of a server.
fn limit_lines(server: &str, filters: &[String], cause: &str) -> Vec<String> {
    const MAX_NAMES: usize = 5;
    let named = |names: &[&str]| match names {
        [] => None,
        names if names.len() > MAX_NAMES => Some((format!("{} tools", names.len()), true)),
        names => Some((format!("`{}`", names.join("`, `")), names.len() > 1)),
    };
    let (hidden, only): (Vec<&str>, Vec<&str>) =
        filters.iter().map(String::as_str).partition(|filter| filter.starts_with('!'));
    let hidden: Vec<&str> = hidden.iter().map(|filter| filter.trim_start_matches('!')).collect();
    let verb = |is_plural| if is_plural { "are" } else { "is" };
    let only = named(&only).filter(|_| only != ["*"]).map(|(tools, is_plural)| {
        let verb = verb(is_plural);
        format!("only {tools} of `{server}` {verb} available in all clients: {cause}")
    });
    let hidden = named(&hidden).map(|(tools, is_plural)| {
        format!("{tools} of `{server}` {} hidden in all clients: {cause}", verb(is_plural))
    });
    only.into_iter().chain(hidden).collect()
}

/// Returns the projects in a file of a client, by folder.
fn projects(file: &Value) -> impl Iterator<Item = &Path> {
    let projects = file.get("projects").and_then(Value::as_object);
    let folders = projects.into_iter().flat_map(|all| all.keys()).map(Path::new);
    folders.filter(|folder| folder.is_absolute())
}

fn parse(syntax: FileSyntax, text: &str) -> Result<Value, String> {
    let editor = ClientFileEditor { syntax, key: "", is_list: false };
    editor.value(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::limit_lines;

    #[test]
    fn limits_of_an_entry_are_named_or_counted() {
        for (filters, wanted) in [
            ("a b", &["only `a`, `b` of `x` are available in all clients: y"][..]),
            ("!a", &["`a` of `x` is hidden in all clients: y"]),
            ("* !a !b", &["`a`, `b` of `x` are hidden in all clients: y"]),
            (
                "a !b",
                &[
                    "only `a` of `x` is available in all clients: y",
                    "`b` of `x` is hidden in all clients: y",
                ],
            ),
            ("a b c d e f", &["only 6 tools of `x` are available in all clients: y"]),
            ("!*", &["`*` of `x` is hidden in all clients: y"]),
            ("*", &[]),
            ("", &[]),
        ] {
            let filters: Vec<String> = filters.split_whitespace().map(str::to_owned).collect();
            assert_eq!(limit_lines("x", &filters, "y"), wanted, "{filters:?}");
        }
    }
}
