//! Carries the rules of clients about their servers' tools over to the configuration.

use std::path::Path;

use serde_json::Value;

use crate::authoring::client_files::FileSyntax;
use crate::authoring::import::ImportCandidates;
use crate::authoring::import::client_rules::{
    ClientRule, RuleAction, RuleTarget, claude_rules, rule_sources,
};
use crate::authoring::setup::client_file_editor::ClientFileEditor;
use crate::cli::import::trial_run::TrialRun;
use crate::cli::setup::clients::{self, ClientFile};
use crate::config::env::{EnvSource, ProcessEnv};

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
                    all.add_file(file, &folder.join(source.file), |value| source.read(value));
                }
            }
            let projects = own.get("projects").filter(|_| id == "claude-code");
            for project in
                projects.and_then(Value::as_object).into_iter().flat_map(|all| all.keys())
            {
                for name in [".claude/settings.json", ".claude/settings.local.json"] {
                    let path = Path::new(project).join(name);
                    let is_absolute = Path::new(project).is_absolute();
                    for source in claude_rules("").iter().filter(|_| is_absolute) {
                        all.add_file(file, &path, |value| source.read(value));
                    }
                }
            }
        }
        all
    }

    fn add_file(
        &mut self,
        client: &ClientFile,
        path: &Path,
        rules: impl Fn(&Value) -> Vec<ClientRule>,
    ) {
        let shown = clients::shown(path, ProcessEnv.home_dir().as_deref());
        let is_yaml = path.extension().is_some_and(|ending| ending == "yaml");
        let syntax = if is_yaml { FileSyntax::Yaml } else { FileSyntax::Json };
        let text = clients::read(path).transpose();
        match text.map(|text| text.and_then(|text| parse(syntax, &text))) {
            None => {}
            Some(Ok(value)) => self.add(client, &shown, rules(&value)),
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
    ) -> impl Iterator<Item = (usize, &'a FoundRule, RuleTarget)> {
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
                Some((index, found, target))
            };
            self.rules.iter().filter_map(target).collect::<Vec<_>>()
        })
    }

    /// Returns the candidates that stay with all clients, with the reason: only the client can
    /// apply its rule.
    pub(super) fn servers_that_stay(
        &self,
        gathered: &ImportCandidates,
        trial: &TrialRun,
    ) -> Vec<(usize, String)> {
        let stay = self.targets(gathered, trial).filter(|(_, found, target)| {
            match (found.rule.action, target) {
                (RuleAction::Deny, RuleTarget::Server) | (RuleAction::Partial, _) => true,
                (RuleAction::Deny | RuleAction::Ask | RuleAction::Allow, _) => false,
            }
        });
        stay.map(|(index, found, _)| {
            (index, format!("the workbench cannot apply {}", found.cause()))
        })
        .collect()
    }

    /// Hides the tools that a client denies. Returns the tools to confirm, and a line for each rule.
    pub(super) fn carry_over(
        &self,
        gathered: &mut ImportCandidates,
        trial: &TrialRun,
    ) -> (Vec<(usize, String)>, Vec<String>) {
        let (mut hidden, mut confirmed, mut lines) = (Vec::new(), Vec::new(), Vec::new());
        for (index, found, target) in self.targets(gathered, trial) {
            let server = gathered.servers().get(index).map_or("", |server| &server.name);
            let tools = match target {
                RuleTarget::Server => vec!["*".to_owned()],
                RuleTarget::Tools(tools) => tools,
            };
            let names = tools.join("`, `");
            let cause = found.cause();
            match found.rule.action {
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
                RuleAction::Partial => {}
            }
        }
        for (index, filters) in hidden {
            let filters: Vec<String> = filters;
            gathered.hide_tools(index, &filters);
        }
        lines.dedup();
        (confirmed, lines)
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
        let own = self.rules.iter().filter(|found| found.client == client);
        own.flat_map(|found| existing.iter().map(move |server| (found, server)))
            .find_map(|(found, (names, filters))| {
                let target = names.iter().find_map(|name| found.rule.target(name, &[]))?;
                let tools = match &target {
                    RuleTarget::Server => vec!["*".to_owned()],
                    RuleTarget::Tools(tools) => tools.clone(),
                };
                let server = names.last().map(String::as_str).unwrap_or_default();
                let (key, wanted): (_, Vec<String>) = match found.rule.action {
                    RuleAction::Allow => return None,
                    RuleAction::Deny | RuleAction::Partial => {
                        ("toolFilters", tools.iter().map(|tool| format!("!{tool}")).collect())
                    }
                    RuleAction::Ask => {
                        let pattern = |tool: &String| format!("{server}:{tool}");
                        ("dangerousTools", tools.iter().map(pattern).collect())
                    }
                };
                let there = if key == "toolFilters" { filters } else { &confirmed };
                let missing: Vec<&str> = wanted
                    .iter()
                    .filter(|rule| !there.contains(rule))
                    .map(String::as_str)
                    .collect();
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

fn parse(syntax: FileSyntax, text: &str) -> Result<Value, String> {
    let editor = ClientFileEditor { syntax, key: "", is_list: false };
    editor.value(text).map_err(|error| error.to_string())
}
