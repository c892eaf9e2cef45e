//! Tests that edits make the requested change and nothing else.

use pretty_assertions::assert_eq;
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};

use super::*;

fn source(text: &str) -> ConfigText<'_> {
    ConfigText { file: Path::new("w.json"), text }
}

fn server(name: &str, toolbox: Option<&str>) -> NewServer {
    NewServer {
        name: name.to_owned(),
        toolbox: toolbox.map(str::to_owned),
        description: Some("For it".to_owned()),
        entry: command_entry(&["npx".to_owned(), "it".to_owned()], &[]),
    }
}

#[track_caller]
fn added(text: &str, new: &NewServer) -> String {
    add_server(source(text), new).unwrap_or_else(|error| panic!("{error}")).text
}

#[track_caller]
fn removed(text: &str, name: &str) -> String {
    remove_server(source(text), None, name).unwrap_or_else(|error| panic!("{error}")).text
}

#[test]
fn added_server_comes_last_and_matches_the_formatting() {
    let text = "// mine\n{\n\t\"mcpServers\": {\n\t\t\"a\": {\"command\": \"a\"}, // first\n\t\t\"b\": {}  // last\n\t}\n}\n";
    assert_eq!(
        added(text, &server("c", None)),
        "// mine\n{\n\t\"mcpServers\": {\n\t\t\"a\": {\"command\": \"a\"}, // first\n\t\t\"b\": {},  // last\n\
         \t\t\"c\": {\n\t\t\t\"command\": \"npx\",\n\t\t\t\"args\": [\n\t\t\t\t\"it\"\n\t\t\t]\n\t\t}\n\t}\n}\n"
    );
    assert_eq!(
        added("{\"mcpServers\": {\"a\": {}}}", &server("c", None)),
        "{\"mcpServers\": {\"a\": {}, \"c\": {\"command\":\"npx\",\"args\":[\"it\"]}}}"
    );
    let last_comma = "{\r\n  \"mcpServers\": {\r\n    \"a\": {},\r\n  },\r\n}\r\n";
    assert_eq!(
        added(last_comma, &server("c", None)),
        "{\r\n  \"mcpServers\": {\r\n    \"a\": {},\r\n    \"c\": {\r\n      \"command\": \"npx\",\r\n      \
         \"args\": [\r\n        \"it\"\r\n      ]\r\n    },\r\n  },\r\n}\r\n"
    );
}

#[test]
fn missing_sections_are_created() {
    assert_eq!(
        added("{\n}\n", &server("c", None)),
        "{\n  \"mcpServers\": {\n    \"c\": {\n      \"command\": \"npx\",\n      \"args\": [\n        \
         \"it\"\n      ]\n    }\n  }\n}\n"
    );
    let made = added("{\n  \"toolMode\": \"proxy\"\n}\n", &server("c", Some("dev")));
    assert_eq!(
        made,
        "{\n  \"toolMode\": \"proxy\",\n  \"toolboxes\": {\n    \"dev\": {\n      \"description\": \"For it\",\n      \
         \"mcpServers\": {\n        \"c\": {\n          \"command\": \"npx\",\n          \"args\": [\n            \
         \"it\"\n          ]\n        }\n      }\n    }\n  }\n}\n"
    );
    let beside = added(&made, &server("d", Some("dev")));
    assert_eq!(beside.matches("For it").count(), 1);
    assert_eq!(added(&made, &server("d", Some("web"))).matches("For it").count(), 2);
    for empty in ["{}", "{ }", "{ // nothing\n}", "\u{feff}{}"] {
        assert!(add_server(source(empty), &server("c", None)).is_ok(), "{empty}");
    }
}

#[test]
fn removed_server_takes_its_line_and_leaves_comments() {
    let text = "{\n  \"mcpServers\": {\n    // the first\n    \"a\": {},\n    \"b\": {\n      \"command\": \"b\"\n    }, // second\n    \"c\": {} /* third */\n  }\n}\n";
    assert_eq!(removed(text, "a"), text.replace("\n    \"a\": {},", ""));
    assert_eq!(
        removed(text, "b"),
        text.replace("\"b\": {\n      \"command\": \"b\"\n    }, // second", " // second")
    );
    assert_eq!(
        removed(text, "c"),
        text.replace("    }, // second\n    \"c\": {} ", "    } // second\n     ")
    );
    let inline = "{\"mcpServers\": {\"a\": {}, \"b\": {}, \"c\": {}}}";
    assert_eq!(removed(inline, "a"), "{\"mcpServers\": {\"b\": {}, \"c\": {}}}");
    assert_eq!(removed(inline, "b"), "{\"mcpServers\": {\"a\": {}, \"c\": {}}}");
    assert_eq!(removed(inline, "c"), "{\"mcpServers\": {\"a\": {}, \"b\": {}}}");
    let alone = "{\r\n  \"mcpServers\": {\r\n    \"a\": {}\r\n  }\r\n}";
    assert_eq!(removed(alone, "a"), "{\r\n  \"mcpServers\": {\r\n  }\r\n}");
    assert_eq!(
        removed("{\"mcpServers\": {\"a\": {}, \"a\": {\"command\": \"x\"}}}", "a"),
        "{\"mcpServers\": {}}"
    );
}

#[test]
fn removing_the_last_server_removes_the_toolbox() {
    let text = "{\n  \"toolboxes\": {\n    \"a\": {\"mcpServers\": {\"x\": {}}},\n    \"b\": {\"mcpServers\": {\"y\": {}, \"z\": {}}}\n  }\n}\n";
    let gone = remove_server(source(text), None, "x").unwrap();
    assert!(gone.removed_toolbox);
    assert_eq!(gone.text, text.replace("\n    \"a\": {\"mcpServers\": {\"x\": {}}},", ""));
    let stays = remove_server(source(text), Some("b"), "y").unwrap();
    assert!(!stays.removed_toolbox && stays.text.contains("\"b\": {\"mcpServers\": {\"z\": {}}}"));
}

#[test]
fn impossible_edits_are_errors() {
    let text = r#"{"toolboxes": {"x": {"mcpServers": {"a": {}}}, "y": {"mcpServers": {"a": {}}}}, "mcpServers": {"b": {}}}"#;
    let fails = |new: &NewServer| add_server(source(text), new).unwrap_err().to_string();
    assert_eq!(fails(&server("a", Some("x"))), "toolbox `x` already has a server `a`");
    assert_eq!(fails(&server("b", None)), "toolbox `b` already has a server `b`");
    assert_eq!(fails(&server("x", None)), "toolbox `x` already has a server `x`");
    assert!(matches!(
        add_server(source(text), &server("c", Some("b"))),
        Err(EditError::StandaloneServer(_))
    ));
    let fails = |name: &str| remove_server(source(text), None, name).unwrap_err();
    assert_eq!(fails("a").to_string(), "several toolboxes have a server `a`: `x`, `y`");
    assert_eq!(
        fails("bb"),
        EditError::ServerNotFound { wanted: "bb".to_owned(), nearest: vec!["b".to_owned()] }
    );
    assert!(remove_server(source(text), Some("y"), "a").is_ok());
    for (file, text) in [
        ("tools.toml", ""),
        ("_config.yaml", ""),
        ("w.json", r#"{"servers": {"a": {"command": "a"}}, "agent_policies": {}}"#),
        ("w.json", "[]"),
        ("w.json", "{"),
        ("w.json", r#"{"mcpServers": 1}"#),
    ] {
        let source = ConfigText { file: Path::new(file), text };
        assert!(add_server(source, &server("c", None)).is_err(), "{file} {text}");
    }
}

#[test]
fn remaining_references_are_listed() {
    let text = "{\n\"mcpServers\": {\"git\": {}, \"github\": {\"command\": \"git\"}},\n\"dangerousTools\": [\"git:push\",\n\
                \"github:x\"],\n\"agentPolicies\": {\"ann\": {\"allowedServers\": [\"git\"]}},\n\"exposedTools\": {\"git\": []}}";
    let told = remove_server(source(text), None, "git").unwrap().remaining_references;
    let told: Vec<_> = told.iter().map(|(path, line)| (path.as_str(), *line)).collect();
    assert_eq!(
        told,
        [
            ("dangerousTools[0]", 3),
            ("agentPolicies.ann.allowedServers[0]", 5),
            ("exposedTools.git", 6)
        ]
    );
}

/// White space and comments, as people write them.
fn filler() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just(" "),
        Just("\n"),
        Just("\t"),
        Just("\r\n"),
        Just("// a, \"b\": {\n"),
        Just("/* c, } */"),
        Just(""),
    ];
    prop::collection::vec(piece, 0..3).prop_map(|pieces| pieces.concat())
}

fn servers() -> impl Strategy<Value = (String, Vec<String>)> {
    let member = (filler(), filler(), filler(), filler());
    (prop::collection::vec(member, 0..5), filler(), any::<bool>()).prop_map(
        |(members, end, comma)| {
            let mut text = "{".to_owned();
            let count = members.len();
            let mut names = Vec::new();
            for (index, (a, b, c, d)) in members.into_iter().enumerate() {
                let name = format!("s{index}");
                let comma = if index + 1 < count || comma { "," } else { "" };
                let member = format!("{a}\"{name}\"{b}:{c}{{\"command\": \"x,y\"}}{d}{comma}");
                text.push_str(&member);
                names.push(name);
            }
            (text + &end + "}", names)
        },
    )
}

/// Returns `true` if `part` is a subsequence of `whole`.
fn is_left_of(part: &str, whole: &str) -> bool {
    let mut chars = whole.chars();
    part.chars().all(|c| chars.any(|other| other == c))
}

proptest! {
    #[test]
    fn edits_preserve_all_other_bytes((inner, names) in servers(), start in filler(), end in filler()) {
        let text = format!("{{\"toolMode\": \"proxy\",{start}\"mcpServers\": {inner}{end}}}");
        let more = added(&text, &server("new", None));
        let blanks = |text: &str| text.replace([' ', '\n', '\r', '\t'], "");
        assert!(is_left_of(&blanks(&text), &blanks(&more)), "{text}\n=>\n{more}");
        // The text from the end of the servers object on is unchanged.
        let close = text.len() - end.len() - 2;
        let kept = text[..close].trim_end();
        let head: String = kept.to_owned();
        assert!(more.ends_with(&text[close..]), "{text}\n=>\n{more}");
        assert!(names.is_empty() || more.len() > head.len());
        for name in &names {
            let less = removed(&text, name);
            assert!(is_left_of(&less, &text), "{text}\n=>\n{less}");
            let comments = |text: &str| (text.matches("// a, \"b\": {").count(), text.matches("/* c, } */").count());
            let inside = comments(&text);
            let of_member = {
                let from = text.find(&format!("\"{name}\"")).unwrap();
                let value = text[from..].find("{\"command\"").unwrap();
                comments(&text[from..from + value])
            };
            assert_eq!(comments(&less), (inside.0 - of_member.0, inside.1 - of_member.1), "{text}\n=>\n{less}");
        }
        // Removing the new server restores the old value.
        assert_eq!(
            Value::from(document::parse_jsonc(&removed(&more, "new")).unwrap()),
            Value::from(document::parse_jsonc(&text).unwrap())
        );
    }

    #[test]
    fn arbitrary_input_does_not_panic(text in ".{0,200}", name in "\\PC{0,10}") {
        let _ = add_server(source(&text), &server(&name, None));
        let _ = remove_server(source(&text), None, &name);
    }
}

fn described(name: &str) -> NewServer {
    let mut new = server(name, None);
    new.entry["description"] = "Notes".into();
    new
}

#[test]
fn added_server_does_not_change_the_program_that_a_file_belongs_to() {
    let plain = [
        "{\"mcpServers\": {}}",
        "{\"mcpServers\": {\"a\": {\"command\": \"a\", \"description\": \"\"}}}",
        "{\"mcpServers\": {\"a\": {\"command\": \"a\"}}}",
        "{\"toolMode\": \"auto\", \"mcpServers\": {}}",
    ];
    for text in plain {
        for new in [server("c", None), described("c")] {
            let after = added(text, &new);
            assert!(!is_modular(source(text), &after), "{after}");
        }
    }
    let theirs = "{\"mcpServers\": {\"a\": {\"command\": \"a\", \"description\": \"A\"}}}";
    let after = added(theirs, &server("c", None));
    assert!(is_modular(source(theirs), &after), "{after}");
    assert!(after.contains("\"Tools of c\""), "{after}");
    let after = added(theirs, &described("c"));
    assert!(after.contains("\"Notes\""), "{after}");
}

#[test]
fn description_stays_in_a_file_that_is_clearly_a_configuration() {
    let after = added("{\"toolMode\": \"auto\", \"mcpServers\": {}}", &described("c"));
    assert!(after.contains("\"Notes\""), "{after}");
}

#[test]
fn removal_reports_the_last_server() {
    for (text, was_last) in [
        ("{\"mcpServers\": {\"a\": {}}}", true),
        ("{\"toolboxes\": {\"t\": {\"mcpServers\": {\"a\": {}}}}}", true),
        ("{\"mcpServers\": {\"a\": {}, \"b\": {}}}", false),
        (
            "{\"mcpServers\": {\"a\": {}}, \"toolboxes\": {\"t\": {\"mcpServers\": {\"b\": {}}}}}",
            false,
        ),
    ] {
        let removed = remove_server(source(text), None, "a").unwrap();
        assert_eq!(removed.was_last, was_last, "{text}");
    }
}

#[test]
fn text_is_added_or_replaced_and_the_rest_stays() {
    let path = ["approvals", "key"];
    for (before, after) in [
        (r#"{"mcpServers": {}}"#, r#"{"mcpServers": {}, "approvals": {"key":"x"}}"#),
        (
            r#"{"approvals": {"notify": false}, "mcpServers": {}} // end"#,
            r#"{"approvals": {"notify": false, "key": "x"}, "mcpServers": {}} // end"#,
        ),
        (
            r#"{"approvals": {"key": "old", "notify": false}, "mcpServers": {}}"#,
            r#"{"approvals": {"notify": false, "key": "x"}, "mcpServers": {}}"#,
        ),
    ] {
        assert_eq!(set_text(source(before), &path, "x").as_deref(), Ok(after));
    }
    let wrong = set_text(source(r#"{"approvals": [], "mcpServers": {}}"#), &path, "x");
    assert!(wrong.is_err(), "{wrong:?}");
}
