//! Text for the user about the commands and URLs of a project file.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;

use crate::cli::output::{escape_to_line, quote_for_shell, quoted};
use mcp_workbench_config::ProjectConfig;
use mcp_workbench_config::env::{EnvSource, ProcessEnv};
use mcp_workbench_settings::{HttpLaunch, Launch, Sandbox, StdioLaunch};

/// The environment of this process, which records the variables that a file reads.
#[derive(Default)]
pub(super) struct RecordingEnv(RefCell<BTreeMap<String, Option<String>>>);

impl EnvSource for RecordingEnv {
    fn get(&self, name: &str) -> Option<String> {
        let value = ProcessEnv.get(name);
        self.0.borrow_mut().insert(name.to_owned(), value.clone());
        value
    }

    fn vars(&self) -> Vec<(OsString, OsString)> {
        Vec::new()
    }

    fn home_dir(&self) -> Option<PathBuf> {
        ProcessEnv.home_dir()
    }
}

/// Shorter values are shown: they appear in too many words by chance.
const MIN_MASKED: usize = 4;

impl RecordingEnv {
    /// Replaces the values of variables by their names: they may be secret.
    fn mask(&self, text: &str) -> String {
        let known = self.0.borrow();
        let mut known: Vec<_> =
            known.iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect();
        known.retain(|(_, value)| value.len() >= MIN_MASKED);
        known.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        known.iter().fold(text.to_owned(), |text, (name, value)| {
            text.replace(value, &format!("${{{name}}}"))
        })
    }
}

/// Describes each server in full: its command or URL, its variables and its sandbox.
pub(super) fn summary(project: &ProjectConfig, env: &RecordingEnv) -> String {
    let mut text = String::new();
    if project.toolboxes.is_empty() {
        text.push_str("It starts no servers.\n");
    } else {
        text.push_str("Its servers, which run as you when an agent uses them:\n");
    }
    for toolbox in &project.toolboxes {
        for server in &toolbox.servers {
            let name = format!("{}/{}", toolbox.name, server.name);
            _ = writeln!(text, "\n  {}", escape_to_line(&name));
            let mut line = |key: &str, value: &str| {
                _ = writeln!(text, "    {key:<10}{}", escape_to_line(&env.mask(value)));
            };
            match &server.launch {
                Launch::Stdio(launch) => describe_process(launch, &mut line),
                Launch::Http(launch) => describe_remote(launch, &mut line),
                Launch::Broken { reason, .. } | Launch::Unsupported { reason, .. } => {
                    line("invalid", reason);
                }
                Launch::Macros(_) => {}
            }
        }
    }
    let variables = env.0.borrow();
    if !variables.is_empty() {
        let names = quoted(variables.keys(), ", ");
        _ = writeln!(text, "\nIt reads these variables of your environment: {names}");
    }
    let rules = project.rules.keys();
    if !rules.is_empty() {
        _ = writeln!(text, "\nIts rules narrow yours: {}", quoted(&rules, ", "));
    }
    text.push_str(
        "\nOnly this file is recorded. Programs in the project can change without a question.",
    );
    text
}

fn describe_process(launch: &StdioLaunch, line: &mut impl FnMut(&str, &str)) {
    let words = [&launch.command].into_iter().chain(&launch.args);
    let words: Vec<_> = words.map(|word| quote_for_shell(word)).collect();
    line("command", &words.join(" "));
    line("folder", &launch.cwd.display().to_string());
    for (name, value) in &launch.env {
        line("env", &format!("{name}={value}"));
    }
    match &launch.sandbox {
        None | Some(Sandbox::Off) => {
            line("sandbox", "yours, if your configuration has one; otherwise none");
        }
        Some(sandbox) => line("sandbox", &describe_sandbox(sandbox)),
    }
}

fn describe_sandbox(sandbox: &Sandbox) -> String {
    let shown = |paths: &BTreeSet<PathBuf>| {
        let paths = paths.iter().map(|path| path.display().to_string());
        paths.collect::<Vec<_>>().join(", ")
    };
    let [read, write] = sandbox.granted_paths().map(|paths| paths.map(shown)).unwrap_or_default();
    let (kind, has_network) = match sandbox {
        Sandbox::Off => return "none".to_owned(),
        Sandbox::Process(confinement) => ("workspace".to_owned(), confinement.has_network),
        Sandbox::Container(container) => {
            (format!("image {}", container.image), container.has_network)
        }
    };
    let network = if has_network { "with network" } else { "without network" };
    let mut text = format!("{kind}, {network}");
    for (verb, paths) in [("reads", read), ("writes", write)] {
        if !paths.is_empty() {
            _ = write!(text, ", {verb} {paths}");
        }
    }
    text
}

fn describe_remote(launch: &HttpLaunch, line: &mut impl FnMut(&str, &str)) {
    line("url", launch.url.as_str());
    for (name, value) in &launch.headers {
        line("header", &format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())));
    }
}
