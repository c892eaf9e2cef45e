use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::env::EnvSource;
use crate::loader::catalog::{check_tools, load_catalog, read_catalog_tool, read_tool, tool};
use crate::loader::catalog_fs::{CatalogFs, DirEntry, DirEntryKind};
use crate::secret_values::{NoSecrets, SecretLookup};
use crate::{ConfigReport, LoadError, LoadedConfig, load as load_file, locate};
use mcp_workbench_names::{ServerName, ServerRef, ToolboxName};
use mcp_workbench_settings::{CatalogFolder, CatalogTool, ChooserKind, Launch, Strategy, ToolMode};

/// An in-memory file system: texts by path.
struct Texts(BTreeMap<String, String>);

impl Texts {
    fn new(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        Self(files.collect())
    }
}

impl CatalogFs for Texts {
    fn list(&self, folder: &str) -> Result<Vec<DirEntry>, String> {
        let inside = |path: &String| match folder {
            "" => Some(path.clone()),
            folder => path.strip_prefix(&format!("{folder}/")).map(str::to_owned),
        };
        let mut folders = BTreeSet::new();
        let mut items = Vec::new();
        for rest in self.0.keys().filter_map(inside) {
            match rest.split_once('/') {
                Some((name, _)) => _ = folders.insert(name.to_owned()),
                None => items.push(DirEntry { name: rest, kind: DirEntryKind::File }),
            }
        }
        items.extend(folders.into_iter().map(|name| DirEntry { name, kind: DirEntryKind::Folder }));
        Ok(items)
    }

    fn read(&self, file: &str) -> Result<Option<String>, String> {
        Ok(self.0.get(file).cloned())
    }
}

fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn read(files: &[(&str, &str)]) -> Result<LoadedConfig, ConfigReport> {
    let env = env(&[("TOKEN", "secret"), ("HOME", "/home/me")]);
    load_catalog(
        &Texts::new(files),
        Path::new("catalog"),
        Path::new("/c"),
        &env,
        &SecretLookup::default(),
    )
}

const CONFIG: &str = "\
mcp_servers:
  slack-mcp:
    command: npx
    args: [\"-y\", \"slack\"]
    env: {SLACK_TOKEN: \"${TOKEN}\", PORT: \"${PORT:-80}\"}
    call_timeout_ms: 5000
  mail: {url: \"https://example.com/mcp\", headers: {Authorization: \"Bearer ${TOKEN}\"}}
navigator:
  strategy: retrieve
  chooser: ranker
  budget: {max_requests: 4}
llm:
  base_url: http://127.0.0.1:1/v1
  model: small
agent_policies:
  ann: {allowed_servers: [slack]}
limits: {max_result_bytes: 5000}
";

fn tree() -> Vec<(&'static str, &'static str)> {
    vec![
        ("_config.yaml", CONFIG),
        ("talk/_category.yaml", "description: Messages"),
        ("talk/slack/_service.yaml", "description: Chat\nmcp_server: slack-mcp"),
        (
            "talk/slack/send.yaml",
            "description: Send\nparameters: {to: {type: string, required: true}}",
        ),
        ("talk/slack/a%2Fb.yml", "description: Odd"),
        ("talk/email/_service.yaml", "description: Mail\nmcp_server: mail"),
        ("talk/email/send_mail.yaml", "description: Mail it"),
        ("talk/email/README.md", "not for us"),
    ]
}

#[test]
fn catalog_becomes_toolboxes_with_included_tools() {
    let LoadedConfig { config, findings: warnings, file, .. } = read(&tree()).unwrap();
    assert_eq!((file.as_str(), warnings), ("catalog", Vec::new()));
    assert_eq!(config.mode, ToolMode::Navigate);
    let [toolbox] = config.toolboxes.as_slice() else { panic!("{:?}", config.toolboxes) };
    assert_eq!((toolbox.name.as_str(), toolbox.description.as_str()), ("talk", "Messages"));
    let servers = toolbox.servers.iter();
    let servers: Vec<_> = servers.map(|s| (s.name.as_str(), s.include.clone().unwrap())).collect();
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    assert_eq!(servers, [("email", texts(&["send_mail"])), ("slack", texts(&["a/b", "send"]))]);
    let slack = toolbox.server("slack").unwrap();
    assert_eq!(slack.call_timeout.as_millis(), 5000);
    let Launch::Stdio(launch) = &slack.launch else { panic!("{slack:?}") };
    assert_eq!((launch.command.as_str(), launch.cwd.as_path()), ("npx", Path::new("/c")));
    assert_eq!((&*launch.env["SLACK_TOKEN"], &*launch.env["PORT"]), ("secret", "80"));
    let navigator = &config.navigator;
    assert_eq!(
        (navigator.strategy(), navigator.chooser()),
        (Strategy::Retrieve, ChooserKind::Ranker)
    );
    assert_eq!((navigator.budget.requests, &*navigator.llm.as_ref().unwrap().model), (4, "small"));
    assert_eq!(config.limits.max_result_bytes, Some(5000));
    assert_eq!(config.policy.agents.len(), 1);
    let CatalogFolder { folder, categories, reader: _ } = navigator.catalog.as_ref().unwrap();
    assert_eq!((folder.as_path(), categories.len()), (Path::new("/c"), 1));
    let email = &categories[0].services[0];
    assert_eq!((email.name.as_str(), email.description.as_str()), ("email", "Mail"));
    let at = ServerRef { toolbox: ToolboxName::new("talk"), server: ServerName::new("email") };
    assert_eq!(email.at, at);
}

// invariant: catalog-degrades
#[test]
fn tool_file_is_read_on_demand() {
    let catalog = read(&tree()).unwrap().config.navigator.catalog.unwrap();
    let slack = &catalog.categories[0].services[1];
    let shelf = Texts::new(&tree());
    let (tool, findings) = read_tool(&shelf, &slack.file("send"), "send");
    assert_eq!(findings, []);
    let wanted = CatalogTool {
        name: "send".to_owned(),
        description: "Send".to_owned(),
        schema: json!({
            "type": "object", "properties": { "to": { "type": "string" } }, "required": ["to"],
        }),
    };
    assert_eq!(tool, Some(wanted));
    assert_eq!(read_tool(&shelf, &slack.file("a/b"), "a/b").0.unwrap().description, "Odd");
    let (tool, findings) = read_tool(&shelf, &slack.file("../gone"), "../gone");
    assert!(tool.is_none() && findings[0].message.contains("no longer exists"), "{findings:?}");
    assert_eq!(findings[0].file.as_deref(), Some("talk/slack/%2E.%2Fgone.yaml"));
    let gone = read_catalog_tool(&catalog.folder, "talk/gone/send.yaml", "send").unwrap_err();
    assert!(gone.findings[0].message.contains("no longer exists"), "{gone}");
    let broken: Vec<_> = tree().into_iter().chain([("talk/slack/bad.yaml", "a: [")]).collect();
    let catalog = read(&broken).unwrap().config.navigator.catalog.unwrap();
    let found = check_tools(&Texts::new(&broken), &catalog);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].file.as_deref(), Some("talk/slack/bad.yaml"));
    assert!(found[0].position.is_some());
}

fn schema(text: &str) -> (Option<serde_json::Value>, Vec<String>) {
    let (tool, findings) = tool::parse_tool_file("x.yaml", text, "x");
    let shown = findings.into_iter().map(|finding| {
        let (line, column) = finding.position.unwrap();
        let hint = finding.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!("{line}:{column}: {}: {}{hint}", finding.path, finding.message)
    });
    (tool.map(|tool| tool.schema), shown.collect())
}

#[test]
fn parameters_become_a_json_schema() {
    let text = "\
description: d
parameters:
  a: {type: string, required: true, description: A, enum: [x, y], default: x}
  b:
    type: [integer, null]
    minimum: 1
  c:
    type: array
    items: {type: object, properties: {d: {type: string, required: true}, e: {}}}
  f: {type: object, required: [g], properties: {g: {type: number}}}
  h:
";
    let wanted = json!({
        "type": "object",
        "properties": {
            "a": { "type": "string", "description": "A", "enum": ["x", "y"], "default": "x" },
            "b": { "type": ["integer", "null"], "minimum": 1 },
            "c": { "type": "array", "items": {
                "type": "object",
                "properties": { "d": { "type": "string" }, "e": {} },
                "required": ["d"],
            } },
            "f": { "type": "object", "required": ["g"], "properties": { "g": { "type": "number" } } },
            "h": {},
        },
        "required": ["a"],
    });
    assert_eq!(schema(text), (Some(wanted), Vec::new()));
    let whole = "description: d\ninput_schema: {type: object, oneOf: [{required: [a]}]}";
    assert_eq!(
        schema(whole).0,
        Some(json!({ "type": "object", "oneOf": [{ "required": ["a"] }] }))
    );
    assert_eq!(schema("description: d").0, Some(json!({ "type": "object", "properties": {} })));
}

#[test]
fn tool_file_errors_have_line_and_column() {
    for (text, wanted) in [
        ("", "1:1: : expected a `description` (add `description: …`: tools are selected by it)"),
        ("[a]", "1:1: : expected an object, found an array"),
        (
            "description: d\nparamters: {}",
            "2:1: paramters: unknown key (did you mean `parameters`?)",
        ),
        (
            "description: d\ndescription: e",
            "2:1: description: duplicate key; first defined in line 1 (remove one of them)",
        ),
        (
            "description: d\nparameters: {a: {type: str}}",
            "2:24: parameters.a.type: expected `string`, \
          `number`, `integer`, `boolean`, `array`, `object` or `null`, found `str` (did you mean \
          `string`?)",
        ),
        (
            "description: d\nparameters: {a: string}",
            "2:17: parameters.a: expected an object, found \
                                                    a string",
        ),
        (
            "description: d\nparameters: {a: {required: yes}}",
            "2:28: parameters.a.required: expected \
                                                             `true` or `false`, found a string",
        ),
        (
            "description: d\nparameters: {}\ninput_schema: {type: object}",
            "3:15: input_schema: expected `inputSchema` or `parameters`, found both (remove one of \
             them)",
        ),
        (
            "description: d\ninputSchema: {type: string}",
            "2:14: inputSchema: expected a JSON Schema \
          of an object (add `type: object`, and put the arguments under `properties`)",
        ),
    ] {
        assert_eq!(schema(text).1, [wanted], "{text}");
    }
    let found = schema("description: d\nparameters: {a: {minimum: x}}");
    assert!(found.0.is_none(), "{found:?}");
    assert!(
        found.1[0].starts_with("2:13: parameters: invalid JSON Schema at `/properties/a/minimum`"),
        "{found:?}"
    );
}

fn repository() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/catalogs")
}

/// Loads a folder of `tests/catalogs`, including its tool files. Returns whether it loaded, and all
/// findings.
fn shown(folder: &Path) -> (bool, String) {
    let env = env(&[("TOKEN", "secret"), ("HOME", "/home/me")]);
    let location = locate(Some(folder.to_owned()), &env, Path::new("/"));
    let report = match load_file(&location, &env, &NoSecrets) {
        Ok(LoadedConfig { config, findings: warnings, file, .. }) => {
            let fs = crate::loader::disk::DiskFs::new(folder);
            let more = check_tools(&fs, config.navigator.catalog.as_ref().unwrap());
            let findings = warnings.into_iter().chain(more).collect();
            return (true, text(&ConfigReport { file, findings }));
        }
        Err(LoadError::Invalid(report)) => report,
        Err(error) => return (false, error.to_string()),
    };
    (false, text(&report))
}

fn text(report: &ConfigReport) -> String {
    if report.findings.is_empty() {
        return "nothing\n".to_owned();
    }
    report.to_string().replace(&format!("{}/", repository().display()), "") + "\n"
}

#[test]
fn catalog_findings_match_expected_files() {
    let update = crate::env::ProcessEnv.get("UPDATE_EXPECT").is_some();
    let mut cases: Vec<_> =
        std::fs::read_dir(repository()).unwrap().map(|e| e.unwrap().path()).collect();
    cases.retain(|path| path.is_dir());
    cases.sort();
    assert!(cases.len() > 3);
    for case in cases {
        let (is_taken, found) = shown(&case);
        let word = if is_taken { "can be used" } else { "cannot be used" };
        let actual = format!("{word}\n\n{found}");
        let expectation = case.with_extension("expected");
        if update {
            std::fs::write(&expectation, &actual).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&expectation).unwrap(), actual, "{}", case.display());
    }
}

#[test]
fn percent_encoded_names_are_decoded() {
    let files = [
        ("_config.yaml", "mcp_servers: {s: {command: x}}"),
        ("%74alk/_category.yaml", "description: d"),
        ("%74alk/sl%61ck/_service.yaml", "description: d\nmcp_server: s"),
        ("%74alk/sl%61ck/sen%64.yml", "description: Send"),
    ];
    let catalog = read(&files).unwrap().config.navigator.catalog.unwrap();
    let service = &catalog.categories[0].services[0];
    assert_eq!((&*catalog.categories[0].name, &*service.name), ("talk", "slack"));
    assert_eq!(service.tools, ["send"]);
    assert_eq!(
        read_tool(&Texts::new(&files), &service.file("send"), "send").0.unwrap().description,
        "Send"
    );
}

/// The files of `tree` with some added or replaced.
fn with(changes: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    let mut files: BTreeMap<_, _> = tree().into_iter().collect();
    files.extend(changes.iter().copied());
    files.into_iter().collect()
}

// invariant: catalog-degrades
#[test]
fn invalid_service_disables_only_that_service() {
    let email = "talk/email/_service.yaml";
    let config = CONFIG.replace("  mail: {url: \"https://example.com/mcp\"", "  mail: {uri: \"x\"");
    for (changed, wanted) in [
        ((email, "mcp_server: ["), "error in `talk/email/_service.yaml`: while parsing a node"),
        (
            (email, "description: d"),
            "error in `talk/email/_service.yaml`: expected an `mcp_server`",
        ),
        (
            (email, "mcp_server: nail"),
            "error in `talk/email/_service.yaml`: `mcp_server`: no server `nail` in `mcp_servers`",
        ),
        (
            ("talk/email/_service.yml", "mcp_server: mail"),
            "error in `talk/email/_service.yml`: duplicate `_service` in this folder",
        ),
        (("_config.yaml", &*config.leak()), "invalid configuration entry: "),
    ] {
        let loaded = read(&with(&[changed])).unwrap_or_else(|report| panic!("{report}"));
        assert_eq!(loaded.broken_servers(), ["talk/email"], "{changed:?}");
        assert!(loaded.has_errors());
        let servers = &loaded.config.toolboxes[0].servers;
        let Launch::Broken { reason, hint } = &servers[0].launch else { panic!("{servers:?}") };
        assert!(reason.starts_with(wanted), "{reason}");
        assert!(!hint.is_empty());
        assert!(matches!(servers[1].launch, Launch::Stdio(_)), "{:?}", servers[1]);
        let categories = loaded.config.navigator.catalog.unwrap().categories;
        let services = categories[0].services.iter();
        let services: Vec<_> = services.map(|service| service.name.as_str()).collect();
        assert_eq!(services, ["email", "slack"], "calls to its tools fail with the reason");
    }
}

// invariant: catalog-degrades
#[test]
fn invalid_category_or_tool_file_keeps_its_services() {
    let unread = read(&with(&[("talk/_category.yaml", "description: [")])).unwrap();
    assert_eq!(unread.config.toolboxes[0].description, "Tools of `email` and `slack`");
    let twice = read(&with(&[("talk/slack/send.yml", "description: Send")])).unwrap();
    let slack = &twice.config.toolboxes[0].servers[1];
    assert_eq!(slack.include.as_ref().unwrap(), &["a/b", "send"]);
    for loaded in [unread, twice] {
        assert!(loaded.has_errors() && loaded.broken_servers().is_empty(), "{:?}", loaded.findings);
    }
}

// invariant: catalog-degrades
#[test]
fn invalid_catalog_config_rejects_the_catalog() {
    for changed in [
        ("_config.yaml", "mcp_servers: ["),
        ("_config.yml", CONFIG),
        ("_config.yaml", "mcp_servers: {slack-mcp: {command: x}}\nlimits: {maxResultBites: 1}"),
        ("_config.yaml", "mcp_servers: {s: {command: x}, s: {command: y}}"),
        ("_config.yaml", "mcp_servers: {s: {command: x}}\nagent_policies: {ann: {allow: []}}"),
    ] {
        assert!(read(&with(&[changed])).is_err(), "{changed:?}");
    }
}

#[test]
fn unrelated_files_are_ignored_with_a_warning() {
    let mut files = tree();
    files.extend([
        ("data/cache/a1/x", ""),
        ("data/lock", ""),
        ("talk/tmp/y.log", ""),
        ("_drafts/slack/_service.yaml", "mcp_server: nobody"),
    ]);
    let LoadedConfig { config, findings: warnings, .. } = read(&files).unwrap();
    assert_eq!(config.toolboxes.len(), 1);
    let warnings: Vec<_> = warnings
        .iter()
        .map(|found| format!("{}: {}", found.file.as_deref().unwrap(), found.message))
        .collect();
    let of_none = "ignored: no catalog files in this folder";
    assert_eq!(
        warnings,
        [
            "_drafts: ignored: names that start with `_` are reserved".to_owned(),
            format!("data: {of_none}"),
            format!("talk/tmp: {of_none}"),
        ]
    );
}

#[test]
fn service_cannot_be_the_server_of_another_service() {
    let files = |first: &'static str, second: &'static str| {
        let service = ["description: d\nmcp_server: s", "description: d\nmcp_server: real"];
        let path = |folder: &str, file: &str| format!("{folder}/{file}");
        [
            ("_config.yaml".to_owned(), "mcp_servers: {s: {command: x}}"),
            (path(first, "_category.yaml"), "description: d"),
            (path(first, "real/_service.yaml"), service[0]),
            (path(first, "real/add.yaml"), "description: d"),
            (path(second, "_category.yaml"), "description: d"),
            (path(second, "other/_service.yaml"), service[1]),
            (path(second, "other/sub.yaml"), "description: d"),
        ]
    };
    for (first, second) in [("a", "b"), ("b", "a")] {
        let files = files(first, second);
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let loaded = read(&files).unwrap();
        assert_eq!(loaded.broken_servers(), [format!("{second}/other")]);
        let [found] = loaded.findings.as_slice() else { panic!("{:?}", loaded.findings) };
        assert_eq!(found.file.as_deref(), Some(&*format!("{second}/other/_service.yaml")));
        assert!(found.message.contains("no server `real`"), "{found:?}");
    }
}

#[test]
fn corrupted_files_do_not_panic() {
    let marks = ["", "&", "*", "!", "-", ":", "|", "\t", "\"", "{", "[", "%", "é", "\0", "~"];
    for (index, (_, text)) in tree().into_iter().enumerate() {
        for (at, was) in text.char_indices().step_by(11) {
            for mark in marks {
                let changed = [&text[..at], mark, &text[at + was.len_utf8()..]].concat();
                let mut files = tree();
                files[index].1 = &changed;
                if let Ok(loaded) = read(&files) {
                    check_tools(&Texts::new(&files), &loaded.config.navigator.catalog.unwrap());
                }
            }
        }
    }
}

#[cfg(unix)]
#[test]
fn symlink_loops_fifos_and_bad_names_are_reported() {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    let folder = tempfile::tempdir().unwrap();
    for (path, text) in tree() {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let at = |path: &str| folder.path().join(path);
    symlink(folder.path(), at("talk/loop")).unwrap();
    symlink("self.yaml", at("talk/slack/self.yaml")).unwrap();
    symlink("nowhere", at("talk/slack/notes.txt")).unwrap();
    std::fs::write(at("talk/slack").join(std::ffi::OsStr::from_bytes(b"\xff.txt")), "").unwrap();
    std::fs::write(at("talk/email/_service.yaml"), b"description: \xff").unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, at("talk/slack/pipe.yaml"), rustix::fs::Mode::RWXU)
        .unwrap();
    let (is_taken, found) = shown(folder.path());
    let found = found.replace(&folder.path().display().to_string(), "<folder>");
    assert!(is_taken);
    assert_eq!(
        found,
        "error: 3 errors in `<folder>`\n\
         \n  talk/email/_service.yaml: failed to read: not valid UTF-8\
         \n  talk/slack/pipe.yaml: ignored: neither a file nor a folder\
         \n  talk/slack/self.yaml: failed to read: too many levels of symbolic links\
         \n\nwarning: 3 warnings in `<folder>`\n\
         \n  talk/loop: ignored: a symbolic link to a parent folder\
         \n  talk/slack/notes.txt: failed to read: no such file or directory\
         \n  talk/slack/\u{fffd}.txt: ignored: its name is not valid UTF-8\n"
    );
}
