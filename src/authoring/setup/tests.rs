use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::authoring::client_files::{ClientProgram, EntryForm, Syntax, programs};
use crate::authoring::setup::journal::{Record, Undone, digest};

const PROGRAM: &str = "/opt/mcp-workbench";

fn place(id: &str) -> Place {
    Place::of(ClientProgram::called(id).unwrap())
}

fn ours(id: &str) -> Value {
    let form = ClientProgram::called(id).unwrap().entry;
    entry::entry(form, PROGRAM, &["--config".to_owned(), "/c.json".to_owned()])
}

/// The entry that leads to a service, in the client's own form.
fn remote(id: &str) -> Value {
    let form = ClientProgram::called(id).unwrap().remote.unwrap();
    entry::remote_entry(form, "http://127.0.0.1:8642/mcp", "mcpw_0123456789abcdef")
}

/// An entry without its name, which a list has for each.
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

fn set_up(id: &str, text: &str, servers: &[&str]) -> Changed {
    change(place(id), Some(text), &ours(id), (None, &names(servers))).unwrap()
}

fn record(id: &str, before: Option<&str>, changed: &Changed) -> Record {
    Record {
        path: String::new(),
        client: Some(id.to_owned()),
        before: before.map(str::to_owned),
        after: digest(&changed.text),
        entry: changed.entry.clone().map(|name| (name, ours(id))),
        taken: changed.taken.clone(),
    }
}

#[test]
fn each_client_keeps_its_servers_under_one_key() {
    for program in programs() {
        assert_eq!(program.servers.len(), 1, "{}", program.id);
    }
}

#[test]
fn each_form_of_an_entry_is_as_its_client_writes_it() {
    for (form, expected) in [
        (EntryForm::Plain, json!({"command": "w", "args": ["a"]})),
        (EntryForm::Stdio, json!({"type": "stdio", "command": "w", "args": ["a"]})),
        (EntryForm::Custom, json!({"source": "custom", "command": "w", "args": ["a"]})),
        (EntryForm::Local, json!({"type": "local", "command": "w", "args": ["a"], "tools": ["*"]})),
        (EntryForm::Words, json!({"type": "local", "command": ["w", "a"], "enabled": true})),
        (
            EntryForm::Extension,
            json!({
                "name": "workbench", "type": "stdio", "cmd": "w", "args": ["a"], "enabled": true,
                "description": "One server for all others: toolboxes are opened when they are wanted",
                "timeout": 300,
            }),
        ),
    ] {
        assert_eq!(entry::entry(form, "w", &["a".to_owned()]), expected);
    }
}

#[test]
fn json_keeps_comments_order_and_line_ends() {
    let text = "\u{feff}{\r\n  // Mine.\r\n  \"theme\": \"dark\",\r\n  \"mcpServers\": {\r\n    // One.\r\n    \"a\": { \"command\": \"a\" }, // behind a\r\n    \"b\": {\r\n      \"command\": \"b\", // in b\r\n    },\r\n    \"off\": { \"command\": \"c\", \"disabled\": true },\r\n  },\r\n}\r\n";
    let changed = set_up("cursor", text, &["a", "b"]);
    let expected = "\u{feff}{\r\n  // Mine.\r\n  \"theme\": \"dark\",\r\n  \"mcpServers\": {\r\n    // One.\r\n    // behind a\r\n    \"off\": { \"command\": \"c\", \"disabled\": true },\r\n    \"workbench\": {\r\n      \"command\": \"/opt/mcp-workbench\",\r\n      \"args\": [\r\n        \"--config\",\r\n        \"/c.json\"\r\n      ]\r\n    },\r\n  },\r\n}\r\n";
    // The blanks before a comment that stays may be others.
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(plain(&changed.text), plain(expected));
    assert!(!changed.text.replace("\r\n", "").contains('\n'), "{:?}", changed.text);
    assert!(changed.text.starts_with('\u{feff}'));
    let record = record("cursor", Some(text), &changed);
    let restored = Undone::Restored(Some(text.to_owned()));
    assert_eq!(record.undo(Some(&changed.text), Some(place("cursor"))), restored);
    // With an edit of the user, comments within what was taken come back too.
    let edited = changed.text.replace("\"dark\"", "\"light\"");
    let Undone::Mended { text, back } = record.undo(Some(&edited), Some(place("cursor"))) else {
        panic!("{edited}")
    };
    assert_eq!(back, ["a", "b"]);
    assert!(text.contains("\"light\"") && text.contains("// in b"), "{text}");
    assert!(!text.contains("workbench"), "{text}");
}

#[test]
fn toml_keeps_comments_and_what_stands_between() {
    let text = "model = \"gpt\" # mine\n\n# About a.\n[mcp_servers.a]\ncommand = \"a\"\nargs = [\"-x\", # why\n]\n\n[mcp_servers.a.env]\nTOKEN = \"t\"\n\n# About profiles.\n[profiles.fast]\nmodel = \"mini\"\n\n[mcp_servers.\"b c\"]\ncommand = \"b\"\n";
    let changed = set_up("codex", text, &["a", "b c"]);
    let expected = "model = \"gpt\" # mine\n\n# About a.\n\n# About profiles.\n[profiles.fast]\nmodel = \"mini\"\n\n[mcp_servers.workbench]\ncommand = \"/opt/mcp-workbench\"\nargs = [\"--config\", \"/c.json\"]\n";
    assert_eq!(changed.text, expected);
    let record = record("codex", Some(text), &changed);
    let edited = format!("{}\n[tui]\ntheme = 1\n", changed.text);
    let Undone::Mended { text, back } = record.undo(Some(&edited), Some(place("codex"))) else {
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
    let expected = "# Goose.\nGOOSE_MODEL: x\nextensions:\n    developer: # own\n        type: builtin\n        enabled: true\n    # About files.\n    workbench:\n      name: workbench\n      description: \"One server for all others: toolboxes are opened when they are wanted\"\n      type: stdio\n      cmd: /opt/mcp-workbench\n      args:\n        - \"--config\"\n        - /c.json\n      enabled: true\n      timeout: 300\n\n# The end.\nother: 1\n";
    assert_eq!(
        changed.text,
        expected.replace("        - ", "          - ").replace("          - ", "        - ")
    );
    let record = record("goose", Some(text), &changed);
    let edited = changed.text.replace("other: 1", "other: 2");
    let Undone::Mended { text, back } = record.undo(Some(&edited), Some(place("goose"))) else {
        panic!("{edited}")
    };
    assert_eq!(back, ["files"]);
    assert!(text.contains("        cmd: npx # why\n"), "{text}");
    assert!(text.contains("other: 2") && !text.contains("workbench"), "{text}");
}

#[test]
fn a_yaml_list_gets_an_item() {
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
fn a_file_that_is_not_there_or_empty_gets_our_entry_alone() {
    for id in ["cursor", "vscode", "zed", "opencode", "codex", "amp", "goose", "copilot"] {
        for text in [None, Some(""), Some("\n")] {
            let changed = change(place(id), text, &ours(id), (None, &[])).unwrap();
            let entries = place(id).entries(&changed.text).unwrap();
            assert_eq!(entries, [("workbench".to_owned(), ours(id))], "{id}");
            let record = record(id, text, &changed);
            let restored = Undone::Restored(text.map(str::to_owned));
            assert_eq!(record.undo(Some(&changed.text), Some(place(id))), restored);
        }
    }
}

#[test]
fn what_cannot_be_changed_for_sure_is_left_alone() {
    for (id, text) in [
        ("cursor", "{ \"mcpServers\": "),
        ("cursor", "{ \"mcpServers\": [] }"),
        ("cursor", "{ \"mcpServers\": \"x\" }"),
        ("codex", "mcp_servers = { a = { command = \"a\" } }\n"),
        ("goose", "extensions: { a: { cmd: x } }\n"),
        ("goose", "extensions: {}\n"),
        ("goose", "- a\n"),
    ] {
        let changed = change(place(id), Some(text), &ours(id), (None, &[]));
        assert!(changed.is_err(), "{id}: {changed:?}");
    }
    // A server that is written in such a way stays, and the rest is done.
    let text = "[mcp_servers]\na = { command = \"a\" }\n\n[mcp_servers.b]\ncommand = \"b\"\n";
    let changed = set_up("codex", text, &["a", "b"]);
    assert_eq!(changed.stuck, ["a"]);
    assert_eq!(changed.taken.len(), 1);
}

#[test]
fn an_entry_that_is_there_is_kept_and_an_older_one_of_ours_replaced() {
    let changed = set_up("cursor", "{}", &[]);
    let (name, own) = (Some("workbench"), ours("cursor"));
    let earlier = Some(("workbench", &own));
    let again =
        change(place("cursor"), Some(&changed.text), &ours("cursor"), (earlier, &[])).unwrap();
    assert_eq!((&again.text, again.entry.as_deref()), (&changed.text, name));
    // Somebody has switched it off.
    let off = changed.text.replace("\"args\"", "\"disabled\": true, \"args\"");
    let again = change(place("cursor"), Some(&off), &ours("cursor"), (earlier, &[])).unwrap();
    assert_eq!(again.text, off);
    // The program has moved.
    let moved = changed.text.replace(PROGRAM, "/old/mcp-workbench");
    let again = change(place("cursor"), Some(&moved), &ours("cursor"), (earlier, &[])).unwrap();
    let entries = place("cursor").entries(&again.text).unwrap();
    assert_eq!(entries, [("workbench".to_owned(), ours("cursor"))]);
    // What was started is reached by its address now, and started again, in the same place.
    let shared =
        change(place("cursor"), Some(&changed.text), &remote("cursor"), (earlier, &[])).unwrap();
    let entries = place("cursor").entries(&shared.text).unwrap();
    assert_eq!(entries, [("workbench".to_owned(), remote("cursor"))]);
    let own_remote = remote("cursor");
    let earlier_remote = Some(("workbench", &own_remote));
    let back = change(place("cursor"), Some(&shared.text), &ours("cursor"), (earlier_remote, &[]))
        .unwrap();
    assert_eq!(
        place("cursor").entries(&back.text).unwrap(),
        [("workbench".to_owned(), ours("cursor"))]
    );
    // The user's own entry is not ours, and neither is a server of our name.
    let own = change(place("cursor"), Some(&changed.text), &ours("cursor"), (None, &[])).unwrap();
    assert_eq!((own.text, own.entry), (changed.text, None));
    let other = r#"{"mcpServers": {"workbench": {"command": "bench"}}}"#;
    assert_eq!(set_up("cursor", other, &[]).entry.as_deref(), Some("workbench-2"));
}

#[test]
fn lists_of_allowed_servers_are_seen() {
    for (text, expected) in [
        (r#"{"mcp": {"allowed": ["a"]}}"#, true),
        (r#"{"mcp": {"allowed": ["a", "workbench"]}}"#, false),
        (r#"{"mcp": {"excluded": ["workbench"]}}"#, true),
        (r#"{"mcp": {"serverCommand": "x"}}"#, false),
        ("{", false),
    ] {
        assert_eq!(place("gemini").keeps_us_out(text), expected, "{text}");
    }
}

#[test]
fn an_entry_that_was_put_in_place_of_ours_stays() {
    let text = r#"{"mcpServers": {"a": {"command": "a"}}}"#;
    let changed = set_up("cursor", text, &["a"]);
    let record = record("cursor", Some(text), &changed);
    let now = r#"{"mcpServers": {"workbench": {"command": "bench"}, "a": {"command": "new"}}}"#;
    let undone = record.undo(Some(now), Some(place("cursor")));
    assert_eq!(undone, Undone::Mended { text: now.to_owned(), back: Vec::new() });
    let gone = record.undo(None, Some(place("cursor")));
    assert_eq!(gone, Undone::Restored(Some(text.to_owned())));
    let broken = record.undo(Some("{"), Some(place("cursor")));
    assert!(matches!(broken, Undone::Kept(_)), "{broken:?}");
}

/// The clients that stand for the syntaxes.
const IDS: [&str; 5] = ["cursor", "opencode", "codex", "goose", "continue"];

/// A client's file with these servers in its own syntax.
fn file(id: &str, servers: &[(String, String)]) -> String {
    let place = place(id);
    let mut text = match place.syntax {
        Syntax::Json => "{\n  // Mine.\n  \"theme\": \"dark\"\n}\n".to_owned(),
        Syntax::Toml => "# Mine.\ntheme = \"dark\"\n".to_owned(),
        Syntax::Yaml => "# Mine.\ntheme: dark\n".to_owned(),
    };
    for (name, command) in servers {
        text = place.insert(&text, name, &json!({"command": command, "args": [command]})).unwrap();
    }
    text
}

#[test]
fn line_ends_and_marks_stay() {
    for id in IDS {
        let servers = [("a", "x"), ("b", "y"), ("c", "z")];
        let servers = servers.map(|(name, command)| (name.to_owned(), command.to_owned()));
        let text = format!("\u{feff}{}", file(id, &servers).replace('\n', "\r\n"));
        let changed = set_up(id, &text, &["a", "c"]);
        assert_eq!(changed.stuck, [""; 0], "{id}");
        let mended = record(id, Some(&text), &changed)
            .undo(Some(&format!("{} ", changed.text)), Some(place(id)));
        let Undone::Mended { text: mended, back } = mended else { panic!("{id}: {mended:?}") };
        assert_eq!(back, ["a", "c"], "{id}");
        for text in [&changed.text, &mended] {
            assert!(text.starts_with('\u{feff}') && text.contains("Mine."), "{id}: {text:?}");
            assert!(!text.replace("\r\n", "").contains('\n'), "{id}: {text:?}");
        }
    }
}

/// Something that a user does to a file.
#[derive(Clone, Debug)]
enum Edit {
    Add(String, String),
    Remove(usize),
    Comment,
    Setting,
}

fn edited(place: Place, text: &str, edit: &Edit) -> String {
    let entries = place.entries(text).unwrap();
    match edit {
        Edit::Add(name, command) => {
            place.insert(text, name, &json!({"command": command})).unwrap_or(text.to_owned())
        }
        Edit::Remove(place_of) => {
            let name = entries.get(*place_of % entries.len().max(1)).map(|(name, _)| name.clone());
            let cut = name.and_then(|name| place.take(text, &name).ok());
            cut.map_or(text.to_owned(), |(text, _)| text)
        }
        Edit::Comment if place.syntax == Syntax::Json => format!("{text}// And this.\n"),
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

    #[test]
    fn undo_restores_what_is_unchanged_and_loses_nothing_of_what_is_not(
        id in proptest::sample::select(IDS.to_vec()),
        is_remote in any::<bool>(),
        servers in servers(),
        chosen in any::<u8>(),
        edits in proptest::collection::vec(edit(), 0..5),
    ) {
        let place = place(id);
        let before = file(id, &servers);
        let chosen = servers.iter().enumerate().filter(|(at, _)| chosen >> at & 1 == 1);
        let chosen: Vec<String> = chosen.map(|(_, (name, _))| name.clone()).collect();
        let own = if is_remote { remote(id) } else { ours(id) };
        let changed = change(place, Some(&before), &own, (None, &chosen)).unwrap();
        prop_assert_eq!(&changed.stuck, &[""; 0]);
        let mut record = record(id, Some(&before), &changed);
        record.entry = changed.entry.clone().map(|name| (name, own.clone()));
        let now = edits.iter().fold(changed.text.clone(), |text, edit| edited(place, &text, edit));
        let undone = record.undo(Some(&now), Some(place));
        if now == changed.text || now == before {
            let restored = Undone::Restored(Some(before.clone()));
            prop_assert!(undone == restored || undone == Undone::Same && now == before);
            return Ok(());
        }
        let Undone::Mended { text, .. } = undone else { panic!("{undone:?}\n{now}") };
        let left = place.entries(&text).unwrap();
        // Everything that was there before us or is there now is there, but for our entry.
        let there = place.entries(&now).unwrap();
        for (name, value) in &there {
            let is_ours = changed.entry.as_ref() == Some(name) && without_name(value) == without_name(&own);
            prop_assert_eq!(left.iter().any(|own| own == &(name.clone(), value.clone())), !is_ours);
        }
        let taken = place.entries(&before).unwrap();
        for (name, value) in taken.into_iter().filter(|(name, _)| chosen.contains(name)) {
            let is_used = there.iter().any(|(other, _)| *other == name);
            prop_assert!(is_used || left.contains(&(name, value)));
        }
        let comments = |text: &str| text.matches("And this.").count() + text.matches("Mine.").count();
        prop_assert_eq!(comments(&text), comments(&now));
        prop_assert_eq!(text.contains("light"), now.contains("light"));
    }

    #[test]
    fn no_text_breaks_it(text in "[ -~\n]{0,80}", id in proptest::sample::select(IDS.to_vec())) {
        let place = place(id);
        if let Ok(changed) = change(place, Some(&text), &ours(id), (None, &names(&["a"]))) {
            let record = record(id, Some(&text), &changed);
            let undone = record.undo(Some(&changed.text), Some(place));
            prop_assert!(matches!(undone, Undone::Restored(Some(back)) if back == text));
        }
    }
}
