use std::collections::BTreeMap;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::authoring::client_files::{ClientApp, EntryForm, FileSyntax, client_apps};
use crate::authoring::setup::journal::{
    FileRecord, Journal, UndoAction, needs_secrets, sha256_hex,
};

const PROGRAM: &str = "/opt/mcp-workbench";

fn place(id: &str) -> ClientFileEditor {
    ClientFileEditor::for_client(ClientApp::from_id(id).unwrap())
}

fn ours(id: &str) -> Value {
    let form = ClientApp::from_id(id).unwrap().entry;
    entry::stdio_entry(form, PROGRAM, &["--config".to_owned(), "/c.json".to_owned()])
}

/// Returns the entry for a shared service, in the client's form.
fn remote(id: &str) -> Value {
    let form = ClientApp::from_id(id).unwrap().remote.unwrap();
    entry::remote_entry(form, "http://127.0.0.1:8642/mcp", "mcpw_0123456789abcdef")
}

fn without_name(entry: &Value) -> Value {
    let mut entry = entry.clone();
    if let Some(members) = entry.as_object_mut() {
        members.remove("name");
    }
    entry
}

fn names(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn set_up(id: &str, text: &str, servers: &[&str]) -> InstallOutcome {
    install_workbench(place(id), Some(text), &ours(id), (None, &names(servers))).unwrap()
}

fn record(id: &str, before: Option<&str>, changed: &InstallOutcome) -> FileRecord {
    FileRecord {
        path: String::new(),
        client: Some(id.to_owned()),
        before: before.map(str::to_owned),
        after: sha256_hex(&changed.text),
        entry: changed.entry.clone().map(|name| (name, ours(id))),
        removed: changed.removed.clone(),
    }
}

#[test]
fn each_client_keeps_its_servers_under_one_key() {
    for program in client_apps() {
        assert_eq!(program.servers.len(), 1, "{}", program.id);
    }
}

#[test]
fn stdio_entry_has_the_form_of_its_client() {
    for (form, expected) in [
        (EntryForm::Plain, json!({"command": "w", "args": ["a"]})),
        (EntryForm::AlwaysLoaded, json!({"command": "w", "args": ["a"], "alwaysLoadTools": true})),
        (EntryForm::Stdio, json!({"type": "stdio", "command": "w", "args": ["a"]})),
        (EntryForm::Custom, json!({"source": "custom", "command": "w", "args": ["a"]})),
        (EntryForm::Local, json!({"type": "local", "command": "w", "args": ["a"], "tools": ["*"]})),
        (EntryForm::CommandList, json!({"type": "local", "command": ["w", "a"], "enabled": true})),
        (
            EntryForm::Extension,
            json!({
                "name": "workbench", "type": "stdio", "cmd": "w", "args": ["a"], "enabled": true,
                "description": "All your MCP servers in one: toolboxes open on demand",
                "timeout": 300,
            }),
        ),
    ] {
        assert_eq!(entry::stdio_entry(form, "w", &["a".to_owned()]), expected);
    }
}

#[test]
fn json_keeps_comments_order_and_line_ends() {
    let text = "\u{feff}{\r\n  // Mine.\r\n  \"theme\": \"dark\",\r\n  \"mcpServers\": {\r\n    // One.\r\n    \"a\": { \"command\": \"a\" }, // behind a\r\n    \"b\": {\r\n      \"command\": \"b\", // in b\r\n    },\r\n    \"off\": { \"command\": \"c\", \"disabled\": true },\r\n  },\r\n}\r\n";
    let changed = set_up("cursor", text, &["a", "b"]);
    let expected = "\u{feff}{\r\n  // Mine.\r\n  \"theme\": \"dark\",\r\n  \"mcpServers\": {\r\n    // One.\r\n    // behind a\r\n    \"off\": { \"command\": \"c\", \"disabled\": true },\r\n    \"workbench\": {\r\n      \"command\": \"/opt/mcp-workbench\",\r\n      \"args\": [\r\n        \"--config\",\r\n        \"/c.json\"\r\n      ]\r\n    },\r\n  },\r\n}\r\n";
    // White space before the remaining comment can change.
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(plain(&changed.text), plain(expected));
    assert!(!changed.text.replace("\r\n", "").contains('\n'), "{:?}", changed.text);
    assert!(changed.text.starts_with('\u{feff}'));
    let record = record("cursor", Some(text), &changed);
    let restored = UndoAction::Restore(Some(text.to_owned()));
    assert_eq!(record.undo(Some(&changed.text), Some(place("cursor"))), restored);
    // After an edit by the user, comments inside the removed servers come back too.
    let edited = changed.text.replace("\"dark\"", "\"light\"");
    let UndoAction::Revert { text, back, .. } = record.undo(Some(&edited), Some(place("cursor")))
    else {
        panic!("{edited}")
    };
    assert_eq!(back, ["a", "b"]);
    assert!(text.contains("\"light\"") && text.contains("// in b"), "{text}");
    assert!(!text.contains("workbench"), "{text}");
}

#[test]
fn toml_keeps_comments_and_other_tables() {
    let text = "model = \"gpt\" # mine\n\n# About a.\n[mcp_servers.a]\ncommand = \"a\"\nargs = [\"-x\", # why\n]\n\n[mcp_servers.a.env]\nTOKEN = \"t\"\n\n# About profiles.\n[profiles.fast]\nmodel = \"mini\"\n\n[mcp_servers.\"b c\"]\ncommand = \"b\"\n";
    let changed = set_up("codex", text, &["a", "b c"]);
    let expected = "model = \"gpt\" # mine\n\n# About a.\n\n# About profiles.\n[profiles.fast]\nmodel = \"mini\"\n\n[mcp_servers.workbench]\ncommand = \"/opt/mcp-workbench\"\nargs = [\"--config\", \"/c.json\"]\nrequired = true\n";
    assert_eq!(changed.text, expected);
    let record = record("codex", Some(text), &changed);
    let edited = format!("{}\n[tui]\ntheme = 1\n", changed.text);
    let UndoAction::Revert { text, back, .. } = record.undo(Some(&edited), Some(place("codex")))
    else {
        panic!("{edited}")
    };
    assert_eq!(back, ["a", "b c"]);
    assert!(text.contains("args = [\"-x\", # why\n]") && text.contains("[tui]"), "{text}");
    assert!(!text.contains("workbench"), "{text}");
}

#[test]
fn yaml_keeps_comments_and_indentation() {
    let text = "# Goose.\nGOOSE_MODEL: x\nextensions:\n    developer: # own\n        type: builtin\n        enabled: true\n    # About files.\n    files:\n        type: stdio\n        cmd: npx # why\n        args: [-y, files]\n        envs: {}\n\n# The end.\nother: 1\n";
    let changed = set_up("goose", text, &["files"]);
    let expected = "# Goose.\nGOOSE_MODEL: x\nextensions:\n    developer: # own\n        type: builtin\n        enabled: true\n    # About files.\n    workbench:\n      name: workbench\n      description: \"All your MCP servers in one: toolboxes open on demand\"\n      type: stdio\n      cmd: /opt/mcp-workbench\n      args:\n        - \"--config\"\n        - /c.json\n      enabled: true\n      timeout: 300\n\n# The end.\nother: 1\n";
    assert_eq!(
        changed.text,
        expected.replace("        - ", "          - ").replace("          - ", "        - ")
    );
    let record = record("goose", Some(text), &changed);
    let edited = changed.text.replace("other: 1", "other: 2");
    let UndoAction::Revert { text, back, .. } = record.undo(Some(&edited), Some(place("goose")))
    else {
        panic!("{edited}")
    };
    assert_eq!(back, ["files"]);
    assert!(text.contains("        cmd: npx # why\n"), "{text}");
    assert!(text.contains("other: 2") && !text.contains("workbench"), "{text}");
}

#[test]
fn entry_is_appended_to_a_yaml_list() {
    let text = "name: Mine\nmcpServers:\n  - name: files # one\n    command: npx\n    args:\n      - -y\n  - command: uvx\n    name: git\nmodels: []\n";
    let changed = set_up("continue", text, &["files"]);
    let expected = "name: Mine\nmcpServers:\n  - command: uvx\n    name: git\n  - name: workbench\n    command: /opt/mcp-workbench\n    args:\n      - \"--config\"\n      - /c.json\nmodels: []\n";
    assert_eq!(changed.text, expected);
    let none = set_up("continue", "name: Mine\n", &[]);
    assert!(
        none.text.starts_with("name: Mine\nmcpServers:\n  - name: workbench\n"),
        "{}",
        none.text
    );
}

#[test]
fn missing_or_empty_file_gets_only_the_workbench_entry() {
    for id in ["cursor", "vscode", "zed", "opencode", "codex", "amp", "goose", "copilot"] {
        for text in [None, Some(""), Some("\n")] {
            let changed = install_workbench(place(id), text, &ours(id), (None, &[])).unwrap();
            let entries = place(id).entries(&changed.text).unwrap();
            assert_eq!(entries, [("workbench".to_owned(), ours(id))], "{id}");
            let record = record(id, text, &changed);
            let restored = UndoAction::Restore(text.map(str::to_owned));
            assert_eq!(record.undo(Some(&changed.text), Some(place(id))), restored);
        }
    }
}

#[test]
fn files_that_cannot_be_edited_safely_are_left_alone() {
    for (id, text) in [
        ("cursor", "{ \"mcpServers\": "),
        ("cursor", "{ \"mcpServers\": [] }"),
        ("cursor", "{ \"mcpServers\": \"x\" }"),
        ("codex", "mcp_servers = { a = { command = \"a\" } }\n"),
        ("goose", "extensions: { a: { cmd: x } }\n"),
        ("goose", "extensions: {}\n"),
        ("goose", "- a\n"),
    ] {
        let changed = install_workbench(place(id), Some(text), &ours(id), (None, &[]));
        assert!(changed.is_err(), "{id}: {changed:?}");
    }
    // A server in an unsupported layout stays; the others are removed.
    let text = "[mcp_servers]\na = { command = \"a\" }\n\n[mcp_servers.b]\ncommand = \"b\"\n";
    let changed = set_up("codex", text, &["a", "b"]);
    let stuck: Vec<_> = changed.unremovable.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(stuck, ["a"]);
    assert_eq!(changed.removed.len(), 1);
}

#[test]
fn existing_entry_is_kept_and_outdated_entry_replaced() {
    let changed = set_up("cursor", "{}", &[]);
    let (name, own) = (Some("workbench"), ours("cursor"));
    let earlier = Some(("workbench", &own));
    let again =
        install_workbench(place("cursor"), Some(&changed.text), &ours("cursor"), (earlier, &[]))
            .unwrap();
    assert_eq!((&again.text, again.entry.as_deref()), (&changed.text, name));
    // The user disabled the entry.
    let off = changed.text.replace("\"args\"", "\"disabled\": true, \"args\"");
    let again =
        install_workbench(place("cursor"), Some(&off), &ours("cursor"), (earlier, &[])).unwrap();
    assert_eq!(again.text, off);
    // The program moved.
    let moved = changed.text.replace(PROGRAM, "/old/mcp-workbench");
    let again =
        install_workbench(place("cursor"), Some(&moved), &ours("cursor"), (earlier, &[])).unwrap();
    let entries = place("cursor").entries(&again.text).unwrap();
    assert_eq!(entries, [("workbench".to_owned(), ours("cursor"))]);
    // From stdio to HTTP and back, under the same name.
    let shared =
        install_workbench(place("cursor"), Some(&changed.text), &remote("cursor"), (earlier, &[]))
            .unwrap();
    let entries = place("cursor").entries(&shared.text).unwrap();
    assert_eq!(entries, [("workbench".to_owned(), remote("cursor"))]);
    let own_remote = remote("cursor");
    let earlier_remote = Some(("workbench", &own_remote));
    let back = install_workbench(
        place("cursor"),
        Some(&shared.text),
        &ours("cursor"),
        (earlier_remote, &[]),
    )
    .unwrap();
    assert_eq!(
        place("cursor").entries(&back.text).unwrap(),
        [("workbench".to_owned(), ours("cursor"))]
    );
    // An entry of the user isn't owned by setup, nor is a server that happens to have the name.
    let own = install_workbench(place("cursor"), Some(&changed.text), &ours("cursor"), (None, &[]))
        .unwrap();
    assert_eq!((own.text, own.entry), (changed.text, None));
    let other = r#"{"mcpServers": {"workbench": {"command": "bench"}}}"#;
    assert_eq!(set_up("cursor", other, &[]).entry.as_deref(), Some("workbench-2"));
}

#[test]
fn detects_client_lists_that_block_the_workbench() {
    for (text, expected) in [
        (r#"{"mcp": {"allowed": ["a"]}}"#, true),
        (r#"{"mcp": {"allowed": ["a", "workbench"]}}"#, false),
        (r#"{"mcp": {"excluded": ["workbench"]}}"#, true),
        (r#"{"mcp": {"serverCommand": "x"}}"#, false),
        ("{", false),
    ] {
        assert_eq!(place("gemini").blocks_workbench(text), expected, "{text}");
    }
}

#[test]
fn secrets_are_needed_if_the_earlier_file_lacks_them() {
    let config = r#"{"env": {"A": "${TOKEN}", "B": "${OTHER:-x}"}}"#;
    for (secrets, before, expected) in [
        ("TOKEN=1\n", None, true),
        ("TOKEN=1\n", Some("TOKEN=1\n"), false),
        ("TOKEN=1\n", Some("TOKEN=2\n"), true),
        ("UNUSED=1\n", None, false),
        ("OTHER=1\n", Some(""), true),
    ] {
        assert_eq!(needs_secrets(config, secrets, before), expected, "{secrets} {before:?}");
    }
}

#[test]
fn variables_are_passed_on_in_the_form_of_each_client() {
    let entry = |id: &str, names_of: &[&str]| {
        let mut entry = ours(id);
        let form = ClientApp::from_id(id).unwrap().env;
        entry::pass_variables(&mut entry, form, &names(names_of));
        entry
    };
    assert_eq!(entry("codex", &["A", "B"])["env_vars"], json!(["A", "B"]));
    assert_eq!(entry("gemini", &["A"])["env"], json!({"A": "$A"}));
    assert_eq!(entry("windsurf", &["A"])["env"], json!({"A": "${env:A}"}));
    for (id, variables) in [("claude-code", &["A"][..]), ("codex", &[]), ("gemini", &[])] {
        assert_eq!(entry(id, variables), ours(id));
    }
    let mut earlier = entry("codex", &["A"]);
    earlier["required"] = json!(false);
    earlier["env_vars"] = json!([{"name": "A", "source": "local"}]);
    let merged = entry::merge_entries(&earlier, &entry("codex", &["A", "B"]));
    assert_eq!(merged["env_vars"], json!([{"name": "A", "source": "local"}, "B"]));
    assert_eq!(merged["required"], json!(false));
}

#[test]
fn undo_keeps_an_entry_that_replaced_the_workbench() {
    let text = r#"{"mcpServers": {"a": {"command": "a"}}}"#;
    let changed = set_up("cursor", text, &["a"]);
    let record = record("cursor", Some(text), &changed);
    let now = r#"{"mcpServers": {"workbench": {"command": "bench"}, "a": {"command": "new"}}}"#;
    let undone = record.undo(Some(now), Some(place("cursor")));
    assert_eq!(
        undone,
        UndoAction::Revert { text: now.to_owned(), back: Vec::new(), taken: vec!["a".to_owned()] }
    );
    let same = now.replace("new", "a");
    let undone = record.undo(Some(&same), Some(place("cursor")));
    assert_eq!(undone, UndoAction::Revert { text: same, back: Vec::new(), taken: Vec::new() });
    let gone = record.undo(None, Some(place("cursor")));
    assert_eq!(gone, UndoAction::Restore(Some(text.to_owned())));
    let broken = record.undo(Some("{"), Some(place("cursor")));
    assert!(matches!(broken, UndoAction::Skip(_)), "{broken:?}");
}

/// One client for each syntax and layout.
const IDS: [&str; 5] = ["cursor", "opencode", "codex", "goose", "continue"];

fn file(id: &str, servers: &[(String, String)]) -> String {
    let editor = place(id);
    let mut text = match editor.syntax {
        FileSyntax::Json => "{\n  // Mine.\n  \"theme\": \"dark\"\n}\n".to_owned(),
        FileSyntax::Toml => "# Mine.\ntheme = \"dark\"\n".to_owned(),
        FileSyntax::Yaml => "# Mine.\ntheme: dark\n".to_owned(),
    };
    for (name, command) in servers {
        text = editor.insert(&text, name, &json!({"command": command, "args": [command]})).unwrap();
    }
    text
}

#[test]
fn line_endings_and_bom_are_preserved() {
    for id in IDS {
        let servers = [("a", "x"), ("b", "y"), ("c", "z")];
        let servers = servers.map(|(name, command)| (name.to_owned(), command.to_owned()));
        let text = format!("\u{feff}{}", file(id, &servers).replace('\n', "\r\n"));
        let changed = set_up(id, &text, &["a", "c"]);
        assert_eq!(changed.unremovable, [], "{id}");
        let mended = record(id, Some(&text), &changed)
            .undo(Some(&format!("{} ", changed.text)), Some(place(id)));
        let UndoAction::Revert { text: mended, back, .. } = mended else {
            panic!("{id}: {mended:?}")
        };
        assert_eq!(back, ["a", "c"], "{id}");
        for text in [&changed.text, &mended] {
            assert!(text.starts_with('\u{feff}') && text.contains("Mine."), "{id}: {text:?}");
            assert!(!text.replace("\r\n", "").contains('\n'), "{id}: {text:?}");
        }
    }
}

/// An edit by the user between setup and undo.
#[derive(Clone, Debug)]
enum Edit {
    Add(String, String),
    Remove(usize),
    Comment,
    Setting,
}

fn edited(editor: ClientFileEditor, text: &str, edit: &Edit) -> String {
    let entries = editor.entries(text).unwrap();
    match edit {
        Edit::Add(name, command) => {
            editor.insert(text, name, &json!({"command": command})).unwrap_or(text.to_owned())
        }
        Edit::Remove(place_of) => {
            let name = entries.get(*place_of % entries.len().max(1)).map(|(name, _)| name.clone());
            let cut = name.and_then(|name| editor.remove(text, &name).ok());
            cut.map_or(text.to_owned(), |(text, _)| text)
        }
        Edit::Comment if editor.syntax == FileSyntax::Json => format!("{text}// And this.\n"),
        Edit::Comment => format!("{text}# And this.\n"),
        Edit::Setting => text.replacen("dark", "light", 1),
    }
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[a-e]", "[a-c] [.-]", Just("ü\"x".to_owned()), Just("true".to_owned())]
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (name(), "[a-z]{1,4}").prop_map(|(name, command)| Edit::Add(name, command)),
        any::<usize>().prop_map(Edit::Remove),
        Just(Edit::Comment),
        Just(Edit::Setting),
    ]
}

fn servers() -> impl Strategy<Value = Vec<(String, String)>> {
    proptest::collection::btree_map(name(), "[a-z\\\\\"# ]{1,6}", 0..5)
        .prop_map(|servers| servers.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    // invariant: undo-loses-nothing
    #[test]
    fn undo_restores_unchanged_files_and_keeps_user_edits_in_others(
        id in proptest::sample::select(IDS.to_vec()),
        is_remote in any::<bool>(),
        servers in servers(),
        chosen in any::<u8>(),
        edits in proptest::collection::vec(edit(), 0..5),
    ) {
        let editor = place(id);
        let before = file(id, &servers);
        let chosen = servers.iter().enumerate().filter(|(at, _)| chosen >> at & 1 == 1);
        let chosen: Vec<String> = chosen.map(|(_, (name, _))| name.clone()).collect();
        let own = if is_remote { remote(id) } else { ours(id) };
        let changed = install_workbench(editor, Some(&before), &own, (None, &chosen)).unwrap();
        prop_assert!(changed.unremovable.is_empty());
        let mut record = record(id, Some(&before), &changed);
        record.entry = changed.entry.clone().map(|name| (name, own.clone()));
        let now = edits.iter().fold(changed.text.clone(), |text, edit| edited(editor, &text, edit));
        let undone = record.undo(Some(&now), Some(editor));
        if now == changed.text || now == before {
            let restored = UndoAction::Restore(Some(before.clone()));
            prop_assert!(undone == restored || undone == UndoAction::Unchanged && now == before);
            return Ok(());
        }
        let UndoAction::Revert { text, .. } = undone else { panic!("{undone:?}\n{now}") };
        let left = editor.entries(&text).unwrap();
        // All servers from before setup and from now are there, except for the workbench's entry.
        let there = editor.entries(&now).unwrap();
        for (name, value) in &there {
            let is_ours = changed.entry.as_ref() == Some(name) && without_name(value) == without_name(&own);
            prop_assert_eq!(left.iter().any(|own| own == &(name.clone(), value.clone())), !is_ours);
        }
        let taken = editor.entries(&before).unwrap();
        for (name, value) in taken.into_iter().filter(|(name, _)| chosen.contains(name)) {
            let is_used = there.iter().any(|(other, _)| *other == name);
            prop_assert!(is_used || left.contains(&(name, value)));
        }
        let comments = |text: &str| text.matches("And this.").count() + text.matches("Mine.").count();
        prop_assert_eq!(comments(&text), comments(&now));
        prop_assert_eq!(text.contains("light"), now.contains("light"));
    }

    // invariant: undo-loses-nothing
    #[test]
    fn any_sequence_of_setups_and_edits_is_undone_without_losing_a_server(
        id in proptest::sample::select(IDS.to_vec()),
        servers in servers(),
        steps in proptest::collection::vec(
            prop_oneof![
                (any::<u8>(), any::<bool>(), any::<bool>())
                    .prop_map(|(chosen, is_remote, has_variables)| Err((chosen, is_remote, has_variables))),
                edit().prop_map(Ok),
            ],
            0..7,
        ),
    ) {
        let editor = place(id);
        let original = file(id, &servers);
        let mut text = original.clone();
        let mut journal = Journal::default();
        let mut expected: BTreeMap<String, Value> = editor.entries(&text).unwrap().into_iter().collect();
        let mut has_edits = false;
        for step in &steps {
            let (chosen, is_remote, has_variables) = match step {
                Err(setup) => *setup,
                // A list takes a second server of the same name.
                Ok(Edit::Add(name, _))
                    if editor.entries(&text).unwrap().iter().any(|(other, _)| other == name) =>
                {
                    continue;
                }
                Ok(edit) => {
                    let changed = edited(editor, &text, edit);
                    has_edits |= changed != text;
                    let (before, now) = (editor.entries(&text).unwrap(), editor.entries(&changed).unwrap());
                    let is_in = |all: &[(String, Value)], name: &str| all.iter().any(|(other, _)| other == name);
                    for (name, _) in before.iter().filter(|(name, _)| !is_in(&now, name)) {
                        expected.remove(name);
                    }
                    for (name, value) in now.into_iter().filter(|(name, _)| !is_in(&before, name)) {
                        expected.insert(name, value);
                    }
                    text = changed;
                    continue;
                }
            };
            let mut own = if is_remote { remote(id) } else { ours(id) };
            if has_variables && !is_remote {
                let form = ClientApp::from_id(id).unwrap().env;
                entry::pass_variables(&mut own, form, &names(&["TOKEN"]));
            }
            let earlier = journal.files.first().and_then(|record| record.entry.clone());
            let earlier = earlier.as_ref().map(|(name, value)| (name.as_str(), value));
            let there = editor.entries(&text).unwrap().into_iter().enumerate();
            let taken = there.filter(|(at, (name, _))| {
                chosen >> (at % 8) & 1 == 1 && !name.starts_with(ENTRY_NAME)
            });
            let taken: Vec<String> = taken.map(|(_, (name, _))| name).collect();
            let changed = install_workbench(editor, Some(&text), &own, (earlier, &taken)).unwrap();
            if changed.text != text {
                let mut new = record(id, Some(&text), &changed);
                new.entry = changed.entry.clone().map(|name| (name, own.clone()));
                journal.merge(new, Some(editor));
                text = changed.text;
            }
        }
        let Some(record) = journal.files.first() else { return Ok(()) };
        let undone = match record.undo(Some(&text), Some(editor)) {
            UndoAction::Restore(text) => text.unwrap(),
            UndoAction::Revert { text, .. } => text,
            UndoAction::Unchanged => text,
            UndoAction::Skip(why) => panic!("{why}"),
        };
        if !has_edits {
            prop_assert_eq!(&undone, &original);
        }
        let left: BTreeMap<String, Value> = editor.entries(&undone).unwrap().into_iter().collect();
        for (name, value) in expected.iter().filter(|(name, _)| !name.starts_with(ENTRY_NAME)) {
            prop_assert_eq!(left.get(name).map(without_name), Some(without_name(value)), "{}", name);
        }
        prop_assert!(!left.keys().any(|name| name.starts_with(ENTRY_NAME)), "{}", undone);
        prop_assert_eq!(undone.matches("Mine.").count(), 1);
    }

    #[test]
    fn arbitrary_text_survives_setup_and_undo(text in "[ -~\n]{0,80}", id in proptest::sample::select(IDS.to_vec())) {
        let editor = place(id);
        if let Ok(changed) = install_workbench(editor, Some(&text), &ours(id), (None, &names(&["a"]))) {
            let record = record(id, Some(&text), &changed);
            let undone = record.undo(Some(&changed.text), Some(editor));
            prop_assert!(matches!(undone, UndoAction::Restore(Some(back)) if back == text));
        }
    }
}

#[test]
fn file_that_cannot_be_edited_is_explained() {
    let install = |id: &str, text: &str| {
        install_workbench(place(id), Some(text), &ours(id), (None, &["a".to_owned()]))
    };
    for (id, text, says) in [
        ("codex", "mcp_servers = { a = { command = \"a\" } }\n", "`[mcp_servers.NAME]`"),
        ("codex", "mcp_servers.a.command = \"a\"\n", "`[mcp_servers.a]`"),
        ("codex", "[mcp_servers]\na = { command = \"a\" }\n", "`[mcp_servers.a]`"),
        ("goose", "extensions: { a: { cmd: a } }\n", "on a line of its own"),
        ("cursor", r#"{"mcpServers": {"a": {"command": "1"}, "a": {"command": "2"}}}"#, "several"),
        ("cursor", r#"{"mcpServers": "a"}"#, "`mcpServers` has no servers"),
    ] {
        let reason = match install(id, text) {
            Ok(changed) => changed.unremovable.into_iter().map(|(_, why)| why).collect(),
            Err(error) => error.to_string(),
        };
        assert!(reason.contains(says), "{text}: {reason}");
    }
}
