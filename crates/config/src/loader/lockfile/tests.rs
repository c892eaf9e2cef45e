use pretty_assertions::assert_eq;

use super::*;

fn spelling(definition: &str, ignore: &[IgnoreRule]) -> DefinitionVariant {
    let raw = RawJson::encode(&serde_json::from_str::<Box<RawValue>>(definition).unwrap());
    let text = String::from_utf8(canonical_definition(&raw, &[]).unwrap()).unwrap();
    DefinitionVariant {
        digest: DefinitionDigest::of(&canonical_definition(&raw, ignore).unwrap()),
        text: text.into(),
    }
}

fn lock() -> Lockfile {
    let ignore = vec![("/description".to_owned(), vec![1])];
    let add = LockedDefinition {
        spellings: vec![spelling(r#"{"name":"add","description":"in UTC","n":1.50}"#, &ignore)],
        ignore,
        is_conditional: false,
    };
    let ask = LockedDefinition {
        spellings: vec![
            spelling(r#"{"name":"ask","description":"a\u202eb"}"#, &[]),
            spelling(r#"{"name":"ask"}"#, &[]),
        ],
        ignore: Vec::new(),
        is_conditional: true,
    };
    let server = LockedServer {
        launch: r#"{"command":"npx"}"#.into(),
        package: Some(LockedPackage {
            ecosystem: Ecosystem::Npm,
            name: "x".to_owned(),
            version: Some("1".to_owned()),
            integrity: None,
            contents: Some("files-sha256:00".to_owned()),
        }),
        info: Some(r#"{"name":"x"}"#.into()),
        instructions: Some(LockedDefinition {
            spellings: vec![spelling(r#""Say \"please\".""#, &[])],
            ignore: Vec::new(),
            is_conditional: false,
        }),
        tools: [("add".to_owned(), add), ("ask".to_owned(), ask)].into(),
        ..LockedServer::default()
    };
    Lockfile { servers: [("x".to_owned(), Arc::new(server))].into() }
}

fn refused(text: &str) -> String {
    parse_lockfile(text).unwrap_err().to_string()
}

#[test]
fn lock_round_trips_byte_for_byte() {
    let text = render_lockfile(&lock());
    insta::assert_snapshot!(text);
    assert_eq!(parse_lockfile(&text), Ok(lock()));
    assert_eq!(render_lockfile(&parse_lockfile(&text).unwrap()), text);
}

#[test]
fn unknown_or_inconsistent_members_reject_the_lock() {
    let good = render_lockfile(&lock());
    for (what, text, said) in [
        ("nothing", String::new(), "invalid JSON"),
        (
            "a merge",
            good.replace("\"servers\": {", "<<<<<<< HEAD\n\"servers\": {"),
            "merge conflict markers",
        ),
        ("another file", "{}".to_owned(), "no `version`"),
        (
            "a newer one",
            good.replace("\"version\": 1", "\"version\": 2"),
            "version 2 is newer than version 1",
        ),
        ("a word", good.replace("\"version\": 1", "\"version\": \"1\""), "expected version 1"),
        ("a new member", good.replace("\"when\"", "\"where\""), "unknown field `where`"),
        (
            "another registry",
            good.replace("\"npm\"", "\"nmp\""),
            "`servers.x.package.registry`: expected one of `npm`, `pypi`, `image`, found `nmp`",
        ),
        (
            "another when",
            good.replace(CLIENT_CAPABILITIES, "never"),
            "`servers.x.tools.ask.when`: expected",
        ),
        (
            "a changed text",
            good.replace("in UTC\"", "at UTC\""),
            "`servers.x.tools.add`: `hash` does not match",
        ),
        (
            "a changed name",
            good.replace("\"add\": {", "\"sub\": {"),
            "`definition` has a different `name`",
        ),
        (
            "twice",
            good.replace("\"launch\": {", "\"launch\": {}, \"launch\": {"),
            "duplicate member",
        ),
    ] {
        assert!(good != text || what.is_empty(), "{what} is the same");
        let found = refused(&text);
        assert!(found.contains(said), "{what}: {found}");
    }
}

#[test]
fn ignored_words_are_not_hashed() {
    let text = render_lockfile(&lock()).replace("in UTC\"", "in JST\"");
    assert!(parse_lockfile(&text).is_ok());
}
