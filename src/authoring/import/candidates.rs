//! Candidate servers for an import. They can be started for a trial first, and then assigned to
//! toolboxes and planned.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use crate::authoring::client_files::ClientApp;
use crate::authoring::import::entry::{
    ClientNeeds, ImportedEntry, LaunchIdentity, SignInDoubt, is_location,
};
use crate::authoring::import::merge::{ConfigMerger, unique_name};
use crate::authoring::import::native_entries::{NativeEntries, NativeServer};
use crate::authoring::import::server_groups::ToolboxDescription;
use crate::authoring::import::source::{self, ServerGroup, SourceContents, SourceServer};
use crate::authoring::import::{
    Grade, ImportFinding, ImportOptions, ImportPlan, NoExtraction, SecretExtractor, SourceFile,
    TrialOutcome, client_entry, top_level,
};
use mcp_workbench_config::syntax::document;
use mcp_workbench_config::syntax::finding::ConfigReport;

/// The servers of several files, without duplicates, and the findings about them.
#[derive(Debug)]
pub struct ImportCandidates {
    existing: Option<SourceFile>,
    sources: Vec<SourceFile>,
    contents: Vec<SourceContents>,
    servers: Vec<CandidateServer>,
    configured: Vec<CandidateServer>,
    left_out: Vec<LeftOutServer>,
    limits: Vec<EntryLimit>,
}

/// The tool filters in the entry of a server in one file.
#[derive(Debug)]
struct EntryLimit {
    key: (String, LaunchIdentity),
    file: String,
    filters: Vec<String>,
}

/// A server of a client's file that setup leaves there without starting it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutServer {
    pub file: String,
    pub name: String,
    pub reason: &'static str,
}

/// A server that can be assigned to a toolbox, or that the configuration has already.
#[derive(Clone, Debug)]
pub struct CandidateServer {
    /// Unique among the candidates.
    pub name: String,
    pub file: String,
    pub description: Option<String>,
    /// The program and its arguments, or the URL.
    pub command_line: Vec<String>,
    pub is_disabled: bool,
    pub needs: ClientNeeds,
    pub block: Map<String, Value>,
    key: (String, LaunchIdentity),
}

/// A server of a client's file that the configuration has or will have after the import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoveredServer {
    /// The file, as its source names it.
    pub file: String,
    /// The name in that file.
    pub name: String,
    /// The index among the candidates. `None` if the configuration already has the server.
    pub server: Option<usize>,
    /// The index among [`ImportCandidates::configured`].
    pub configured: Option<usize>,
}

/// Returns `true` if a file has servers or cannot be read.
pub fn has_servers(source: &SourceFile) -> bool {
    !source::read(source, &mut NoExtraction).has_no_servers
}

/// Reads `sources` and collects the servers that `existing` doesn't have. `secrets` extracts their
/// secrets.
pub fn collect_candidates(
    existing: Option<&SourceFile>,
    sources: &[SourceFile],
    secrets: &mut dyn SecretExtractor,
) -> Result<ImportCandidates, ConfigReport> {
    let contents = sources.iter().map(|source| source::read(source, secrets)).collect();
    gather_from(existing, sources, contents)
}

/// Like [`collect_candidates`], without disabled and project servers. Servers with equal launches
/// count as one, even if clients use different names. Also collects the servers of the
/// configuration that the sources have, or that differ from a candidate only in options.
pub fn collect_user_candidates(
    existing: Option<&SourceFile>,
    sources: &[SourceFile],
    secrets: &mut dyn SecretExtractor,
) -> Result<ImportCandidates, ConfigReport> {
    let mut left_out = Vec::new();
    let mut leave = |found: &SourceServer, reason| {
        if !found.block.launch.is_workbench() {
            let (file, name) = (found.file.clone(), found.original_name.clone());
            left_out.push(LeftOutServer { file, name, reason });
        }
    };
    let own = sources.iter().map(|source| {
        let mut contents = source::read(source, secrets);
        (contents.top, contents.rules) = (None, None);
        for group in contents.groups.iter().filter(|group| !group.is_user_level) {
            group.servers.iter().for_each(|found| leave(found, "belongs to a single project"));
        }
        contents.findings.retain(|finding| finding.message != client_entry::APPROVALS_IGNORED);
        contents.groups.retain(|group| group.is_user_level && is_regroupable(group));
        for group in &mut contents.groups {
            group.servers.iter().filter(|found| is_off(&found.block)).for_each(|found| {
                leave(found, "is disabled");
            });
            group.servers.retain(|found| !is_off(&found.block));
        }
        contents
    });
    let mut own: Vec<SourceContents> = own.collect();
    let options = ImportOptions::default();
    let merge = ConfigMerger::new(existing, &options)?;
    let known = merge.servers().map(|(name, launch)| (name.to_owned(), launch.clone()));
    one_name_each(known.collect(), &mut own);
    let limits = one_filter_each(&mut own);
    let mut gathered =
        ImportCandidates { left_out, limits, ..gather_from(existing, sources, own)? };
    gathered.configured = configured(&gathered);
    Ok(gathered)
}

/// Returns the servers of the configuration that the sources have, as the sources limit their
/// tools, and those that differ from a candidate only in options, with all tools.
fn configured(gathered: &ImportCandidates) -> Vec<CandidateServer> {
    let Some(existing) = &gathered.existing else { return Vec::new() };
    let mut configured: Vec<CandidateServer> = Vec::new();
    for NativeServer { name, block, launch } in NativeEntries::read(existing).servers() {
        let key = (name.clone(), launch.clone());
        let found = gathered.found().find(|found| self::key(found) == key);
        let resembles =
            || gathered.servers.iter().any(|server| server.key.1.differs_only_in_options(launch));
        // Each name can be started only once.
        let is_taken = configured.iter().any(|server| server.name == *name);
        if is_taken || found.is_none() && !resembles() {
            continue;
        }
        let mut block = block.clone();
        block.remove("overrides");
        match found.map(|found| found.block.tool_filters()) {
            Some(filters) if !filters.is_empty() => {
                block.insert("toolFilters".to_owned(), filters.into());
            }
            Some(_) | None => drop(block.remove("toolFilters")),
        }
        configured.push(CandidateServer {
            name: name.clone(),
            file: existing.file.clone(),
            description: None,
            command_line: launch.words(),
            is_disabled: block.get("disabled") == Some(&Value::Bool(true)),
            needs: ClientNeeds::default(),
            block,
            key,
        });
    }
    configured
}

/// Renames each server to the first name used for the same launch, in `known` or in the files.
fn one_name_each(mut known: Vec<(String, LaunchIdentity)>, contents: &mut [SourceContents]) {
    let groups = contents.iter_mut().flat_map(|contents| &mut contents.groups);
    for found in groups.flat_map(|group| &mut group.servers) {
        let launch = &found.block.launch;
        if let Some((name, _)) = known.iter().find(|(_, other)| other == launch) {
            found.name.clone_from(name);
            continue;
        }
        if let Some((_, other)) = known.iter().find(|(name, _)| *name == found.name) {
            let client = ClientApp::from_path(&found.file).map(|program| program.id);
            let word = distinctive_word(launch, other);
            let word = word.as_deref().or(client).unwrap_or("other");
            let is_taken = |name: &str| known.iter().any(|(other, _)| other == name);
            found.name = unique_name(&format!("{}-{word}", found.name), is_taken);
        }
        known.push((found.name.clone(), launch.clone()));
    }
}

/// Returns the last part of a path or URL that only the first of two servers has.
fn distinctive_word(launch: &LaunchIdentity, other: &LaunchIdentity) -> Option<String> {
    let words = |launch: &LaunchIdentity| match launch {
        LaunchIdentity::Command { args, env, cwd, .. } => {
            let env = env.iter().map(|(_, value)| value.clone());
            args.iter().cloned().chain(env).chain(cwd.clone()).collect()
        }
        LaunchIdentity::Url { url, .. } => vec![url.clone()],
    };
    let others: Vec<String> = words(other);
    let own = words(launch).into_iter().filter(|word| is_location(word) && !others.contains(word));
    let mut parts = own.rev().filter_map(|word| {
        let last = word.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next()?;
        let last = last.split(['.', '?', '#', ':', '@']).find(|part| !part.is_empty())?;
        let lower = last.to_lowercase();
        let plain: String =
            lower.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let plain = plain.trim_matches('-').to_owned();
        (!plain.is_empty() && !last.contains('$') && plain.len() <= MAX_DISTINCTIVE)
            .then_some(plain)
    });
    parts.next()
}

/// Maximum length of a part of a name that tells servers apart, in bytes.
const MAX_DISTINCTIVE: usize = 24;

/// Restricts each server as in all the files that have it, because all clients share it. Returns
/// the limits of each file.
fn one_filter_each(contents: &mut [SourceContents]) -> Vec<EntryLimit> {
    let groups = contents.iter().flat_map(|contents| &contents.groups);
    let limits = groups.flat_map(|group| &group.servers).map(|found| EntryLimit {
        key: key(found),
        file: found.file.clone(),
        filters: found.block.tool_filters(),
    });
    let limits: Vec<EntryLimit> = limits.collect();
    let groups = contents.iter_mut().flat_map(|contents| &mut contents.groups);
    for found in groups.flat_map(|group| &mut group.servers) {
        let key = key(found);
        let own = limits.iter().filter(|limit| limit.key == key).map(|limit| limit.filters.clone());
        let shared = own.reduce(|one, other| intersect_filters(&one, &other)).unwrap_or_default();
        if found.block.tool_filters() != shared {
            found.block.set_tool_filters(shared);
        }
    }
    limits.into_iter().filter(|limit| !limit.filters.is_empty()).collect()
}

/// Returns filters that show only tools that both lists show.
fn intersect_filters(one: &[String], other: &[String]) -> Vec<String> {
    let split = |filters: &[String]| -> (Vec<String>, Vec<String>) {
        filters.iter().cloned().partition(|filter| !filter.starts_with('!'))
    };
    let ((shown, mut hidden), (others, also_hidden)) = (split(one), split(other));
    let shown = match (shown.is_empty(), others.is_empty()) {
        (_, true) => shown,
        (true, false) => others,
        (false, false) => {
            let both: Vec<String> =
                shown.into_iter().filter(|filter| others.contains(filter)).collect();
            if both.is_empty() {
                hidden.push("!*".to_owned());
            }
            both
        }
    };
    hidden.extend(also_hidden.into_iter().filter(|filter| !one.contains(filter)));
    shown.into_iter().chain(hidden).collect()
}

/// Returns `wanted`, or a variant that no server has.
fn free_of(servers: &[CandidateServer], wanted: &str) -> String {
    unique_name(wanted, |name| servers.iter().any(|server| server.name == name))
}

fn gather_from(
    existing: Option<&SourceFile>,
    sources: &[SourceFile],
    contents: Vec<SourceContents>,
) -> Result<ImportCandidates, ConfigReport> {
    let options = ImportOptions::default();
    let merge = ConfigMerger::new(existing, &options)?;
    let mut servers: Vec<CandidateServer> = Vec::new();
    let groups = contents.iter().flat_map(|contents| &contents.groups);
    for found in groups.filter(|group| is_regroupable(group)).flat_map(|group| &group.servers) {
        let key = key(found);
        let is_known = servers.iter().any(|server| server.key == key);
        if is_known || found.block.launch.is_workbench() || merge.has(found) {
            continue;
        }
        let Value::Object(block) = top_level::cst_to_json(found.block.clone().into_value()) else {
            continue;
        };
        servers.push(CandidateServer {
            name: free_of(&servers, &found.name),
            file: found.file.clone(),
            description: block.get("description").and_then(Value::as_str).map(str::to_owned),
            command_line: found.block.launch.words(),
            is_disabled: is_off(&found.block),
            needs: found.block.needs.clone(),
            block,
            key,
        });
    }
    let (existing, sources) = (existing.cloned(), sources.to_vec());
    Ok(ImportCandidates {
        existing,
        sources,
        contents,
        servers,
        configured: Vec::new(),
        left_out: Vec::new(),
        limits: Vec::new(),
    })
}

fn is_off(block: &ImportedEntry) -> bool {
    let block = top_level::cst_to_json(block.clone().into_value());
    block.get("disabled") == Some(&Value::Bool(true))
}

/// Returns `true` if the servers of `group` can be moved to other toolboxes.
fn is_regroupable(group: &ServerGroup) -> bool {
    !group.needs_own_toolboxes && matches!(group.description, ToolboxDescription::Generated(_))
}

/// Returns the identity of a server across files.
fn key(found: &SourceServer) -> (String, LaunchIdentity) {
    (found.name.clone(), found.block.launch.clone())
}

impl CandidateServer {
    /// Returns `true` if both run the same program, on the same folders and addresses and in the
    /// same environment, with other options, such as a time zone.
    pub fn differs_only_in_options(&self, other: &Self) -> bool {
        self.key.1.differs_only_in_options(&other.key.1)
    }

    /// Returns the text of a configuration that has only this server.
    pub fn trial_config(&self) -> String {
        let mut block = self.block.clone();
        block.remove("namespace");
        json!({ "mcpServers": { (self.name.as_str()): block } }).to_string()
    }
}

impl ImportCandidates {
    /// Returns the servers that can be assigned to toolboxes.
    pub fn servers(&self) -> &[CandidateServer] {
        &self.servers
    }

    /// Returns the servers of the configuration that the files have, or that differ from a
    /// candidate only in options.
    pub fn configured(&self) -> &[CandidateServer] {
        &self.configured
    }

    /// Returns the servers that [`collect_user_candidates`] leaves in their files.
    pub fn left_out(&self) -> &[LeftOutServer] {
        &self.left_out
    }

    /// Returns every server of the files that the configuration has or will have.
    pub fn covered_servers(&self) -> Vec<CoveredServer> {
        let found = self.found().filter(|found| !found.block.launch.is_workbench());
        let place = |servers: &[CandidateServer], found| {
            servers.iter().position(|server| server.key == key(found))
        };
        let carried = found.map(|found| CoveredServer {
            file: found.file.clone(),
            name: found.original_name.clone(),
            server: place(&self.servers, found),
            configured: place(&self.configured, found),
        });
        carried.collect()
    }

    /// Returns the entries that start the workbench itself, by file and name.
    pub fn workbenches(&self) -> Vec<(String, String)> {
        let found = self.found().filter(|found| found.block.launch.is_workbench());
        found.map(|found| (found.file.clone(), found.original_name.clone())).collect()
    }

    /// Returns the names that the candidate at `index` has in the files.
    pub fn names(&self, index: usize) -> Vec<&str> {
        let key = self.servers.get(index).map(|server| &server.key);
        let found = self.found().filter(|found| Some(&self::key(found)) == key);
        found.map(|found| found.original_name.as_str()).collect()
    }

    /// Returns the tool filters of the candidate at `index` in each file that limits its tools.
    pub fn limits(&self, index: usize) -> impl Iterator<Item = (&str, &[String])> {
        let key = self.servers.get(index).map(|server| &server.key);
        let own = self.limits.iter().filter(move |limit| Some(&limit.key) == key);
        own.map(|limit| (limit.file.as_str(), limit.filters.as_slice()))
    }

    /// Hides tools of the candidate at `index`. `filters` begin with `!`.
    pub fn hide_tools(&mut self, index: usize, filters: &[String]) {
        let Some(server) = self.servers.get(index) else { return };
        let key = server.key.clone();
        let groups = self.contents.iter_mut().flat_map(|contents| &mut contents.groups);
        for found in groups.flat_map(|group| &mut group.servers) {
            if self::key(found) == key {
                let merged = intersect_filters(&found.block.tool_filters(), filters);
                found.block.set_tool_filters(merged);
            }
        }
    }

    /// Returns the servers of the configuration: the names in it and in the files, and the filters.
    pub fn existing_servers(&self) -> Vec<(Vec<String>, Vec<String>)> {
        let entries = self.existing.as_ref().map(NativeEntries::read).unwrap_or_default();
        let existing = entries.servers().map(|NativeServer { name, block, .. }| {
            let found = self.found().filter(|found| found.name == *name);
            let names = found.map(|found| found.original_name.clone());
            let filters = block.get("toolFilters").and_then(Value::as_array).into_iter().flatten();
            let filters = filters.filter_map(|filter| Some(filter.as_str()?.to_owned()));
            (names.chain([name.clone()]).collect(), filters.collect())
        });
        existing.collect()
    }

    /// Returns the `dangerousTools` of the configuration.
    pub fn existing_confirmations(&self) -> Vec<String> {
        let top = self.existing.as_ref().map(top).unwrap_or_default();
        let own = ["dangerousTools", "dangerous_tools"].iter().filter_map(|key| top.get(*key));
        let own = own.filter_map(Value::as_array).flatten();
        own.filter_map(|pattern| Some(pattern.as_str()?.to_owned())).collect()
    }

    /// Removes the candidates at the indices `places`, and from the sources also the servers of
    /// the configuration at the indices `configured`.
    #[must_use]
    pub fn exclude(mut self, places: &[usize], configured: &[usize]) -> Self {
        let servers = std::mem::take(&mut self.servers).into_iter().enumerate();
        let (left, kept): (Vec<_>, Vec<_>) = servers.partition(|(place, _)| places.contains(place));
        let configured = configured.iter().filter_map(|place| self.configured.get(*place));
        let left: Vec<_> = left
            .into_iter()
            .map(|(_, server)| server.key)
            .chain(configured.map(|server| server.key.clone()))
            .collect();
        for group in self.contents.iter_mut().flat_map(|contents| &mut contents.groups) {
            group.servers.retain(|found| !left.contains(&key(found)));
        }
        let mut servers: Vec<CandidateServer> = Vec::new();
        for (_, server) in kept {
            // The original name may be free again.
            let found = self.found().find(|found| key(found) == server.key);
            let wanted = found.map_or(server.name.as_str(), |found| found.name.as_str());
            servers.push(CandidateServer { name: free_of(&servers, wanted), ..server });
        }
        self.servers = servers;
        self
    }

    fn found(&self) -> impl Iterator<Item = &SourceServer> {
        let groups = self.contents.iter().flat_map(|contents| &contents.groups);
        groups.flat_map(|group| &group.servers)
    }

    /// Plans the import.
    pub fn plan(self, options: &ImportOptions) -> Result<ImportPlan, ConfigReport> {
        let Self { existing, sources, contents, servers, .. } = self;
        let top = existing.as_ref().map(top);
        let mut merge = ConfigMerger::new(existing.as_ref(), options)?;
        let mut placing = GroupAssigner::new(&servers, options);
        let mut findings = Vec::new();
        let mut has_refused_rules = false;
        // With several sources, the policy of one would also apply to the servers of the others.
        let (is_alone, nothing) = (sources.len() == 1, Map::new());
        for (source, contents) in sources.iter().zip(contents) {
            let SourceContents { groups, top: own, rules, findings: notes, .. } = contents;
            findings.extend(notes);
            if let Some(rules) = rules {
                let into = if is_alone { top.as_ref() } else { top.as_ref().or(Some(&nothing)) };
                match rules.settings(into) {
                    Ok(settings) => merge.add_settings(settings),
                    Err(why) => {
                        findings.push(refused(source, &why));
                        has_refused_rules = true;
                        continue;
                    }
                }
            }
            let mut names = HashMap::new();
            for mut group in groups {
                for found in &mut group.servers {
                    findings.extend(placing.apply_outcome(found));
                    let index = placing.index(found);
                    let text = index.and_then(|index| options.descriptions.get(index));
                    if let Some(text) = text.filter(|text| !text.is_empty()) {
                        found.block.describe(text);
                    }
                }
                if is_regroupable(&group) && !options.proposal.is_empty() {
                    placing.take(group.servers);
                } else {
                    merge.add(group, &mut names, &mut findings);
                }
            }
            if let Some(own) = own {
                merge.add_top_level_settings(own, source, &names, &mut findings);
            }
        }
        for group in placing.into_groups(options) {
            merge.add(group, &mut HashMap::new(), &mut findings);
        }
        let place =
            |finding: &ImportFinding| sources.iter().position(|source| source.file == finding.file);
        findings.sort_by_key(place);
        for (index, tool) in &options.confirmations {
            if let Some(server) = servers.get(*index) {
                merge.add_confirmation(&server.key.1, tool);
            }
        }
        let (text, added) = merge.finish()?;
        Ok(ImportPlan { text, added, findings, has_rejected_policy: has_refused_rules })
    }
}

fn top(existing: &SourceFile) -> Map<String, Value> {
    let tree = document::parse_jsonc(document::strip_bom(&existing.text));
    match tree.map(Value::from) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

fn refused(source: &SourceFile, why: &str) -> ImportFinding {
    ImportFinding {
        grade: Grade::Unsupported,
        file: source.file.clone(),
        path: String::new(),
        position: None,
        message: format!("file not imported: {why}"),
        hint: Some(
            "import only this file into a new configuration (`--config new.json`), or serve it \
             directly"
                .to_owned(),
        ),
    }
}

/// Assigns servers to the proposed toolboxes.
struct GroupAssigner<'a> {
    servers: &'a [CandidateServer],
    outcomes: &'a [TrialOutcome],
    proposed: Vec<Vec<SourceServer>>,
    /// Servers without a proposed toolbox: duplicates of existing ones, and the workbench itself.
    rest: Vec<SourceServer>,
    toolbox_of: HashMap<usize, usize>,
    told: HashSet<usize>,
}

impl<'a> GroupAssigner<'a> {
    fn new(servers: &'a [CandidateServer], options: &'a ImportOptions) -> Self {
        let toolboxes = options.proposal.iter().enumerate();
        let toolbox_of = toolboxes.flat_map(|(toolbox, proposal)| {
            proposal.servers.iter().map(move |server| (*server, toolbox))
        });
        Self {
            servers,
            outcomes: &options.outcomes,
            proposed: options.proposal.iter().map(|_| Vec::new()).collect(),
            rest: Vec::new(),
            toolbox_of: toolbox_of.collect(),
            told: HashSet::new(),
        }
    }

    fn index(&self, found: &SourceServer) -> Option<usize> {
        self.servers
            .iter()
            .position(|server| server.key.0 == found.name && server.key.1 == found.block.launch)
    }

    /// Grades a server by the outcome of its trial start. Returns a finding, but only once for each
    /// candidate.
    fn apply_outcome(&mut self, found: &mut SourceServer) -> Option<ImportFinding> {
        let index = self.index(found);
        let is_first = index.is_none_or(|index| self.told.insert(index));
        let outcome = index.and_then(|index| self.outcomes.get(index));
        let (grade, message, hint) = match outcome.unwrap_or(&TrialOutcome::NotStarted) {
            TrialOutcome::Started => return None,
            TrialOutcome::WantsSignIn => {
                (Grade::Approximate, "requires a sign-in".to_owned(), sign_in(&found.name))
            }
            TrialOutcome::Failed { reason, hint } => (
                Grade::Manual,
                format!("could not be started, so its toolbox was chosen by name only: {reason}"),
                hint.clone(),
            ),
            TrialOutcome::NotStarted => match found.may_need_sign_in? {
                SignInDoubt::SignIn => {
                    (Grade::Approximate, "may require a sign-in".to_owned(), sign_in(&found.name))
                }
            },
        };
        found.grade = found.grade.max(grade);
        is_first.then(|| found.note(grade, message, Some(hint)))
    }

    fn take(&mut self, servers: Vec<SourceServer>) {
        for found in servers {
            let index = self.index(&found);
            let toolbox = index.and_then(|index| self.toolbox_of.get(&index));
            match toolbox.and_then(|toolbox| self.proposed.get_mut(*toolbox)) {
                Some(servers) => servers.push(found),
                None => self.rest.push(found),
            }
        }
    }

    fn into_groups(self, options: &ImportOptions) -> Vec<ServerGroup> {
        let group = |name: &str, description, servers| ServerGroup {
            name: name.to_owned(),
            description,
            namespace: None,
            needs_own_toolboxes: false,
            is_user_level: false,
            servers,
        };
        let proposed = options.proposal.iter().zip(self.proposed).map(|(proposal, servers)| {
            let description = ToolboxDescription::Written(proposal.description.clone());
            group(&proposal.name, description, servers)
        });
        let rest = group("imported", ToolboxDescription::Generated("other clients"), self.rest);
        proposed.chain([rest]).filter(|group| !group.servers.is_empty()).collect()
    }
}

fn sign_in(server: &str) -> String {
    format!(
        "run `mcp-workbench auth login {server}`, or add a token to `headers`: \
         `\"Authorization\": \"Bearer ${{TOKEN}}\"`"
    )
}
