use pretty_assertions::assert_eq;

use super::*;

fn described(title: &str, servers: &[(&str, &str)]) -> String {
    let phrase = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let servers: Vec<_> = servers.iter().map(|(name, text)| (*name, phrase(text))).collect();
    description(title, &servers)
}

#[test]
fn one_server_is_described_by_its_phrase() {
    let memory = [("memory", "a knowledge graph that persists between sessions")];
    assert_eq!(described("Memory", &memory), "A knowledge graph that persists between sessions");
    assert_eq!(described("Memory", &[("memory", "")]), "Memory: memory");
    assert_eq!(described("X", &[("x", "über alle fünf Berge")]), "Über alle fünf Berge");
    assert_eq!(described("Web", &[("x", "navigate and click")]), "Web: navigate and click");
}

#[test]
fn several_servers_are_named_with_their_phrases() {
    let two = [("git", "local Git repositories"), ("github", "GitHub repositories")];
    assert_eq!(
        described("Code", &two),
        "git (local Git repositories), github (GitHub repositories)"
    );
    assert_eq!(
        described("Code", &[two[0], ("own", "")]),
        "Code: git (local Git repositories), own"
    );
}

#[test]
fn long_phrases_are_left_out_first_and_names_never_cut() {
    let phrase = |length: usize| "x".repeat(length);
    for count in 1..40 {
        let phrases: Vec<String> = (0..count).map(|n| phrase(20 + 3 * n)).collect();
        let names: Vec<String> = (0..count).map(|n| format!("server-{n}")).collect();
        let servers: Vec<(&str, &str)> =
            names.iter().map(String::as_str).zip(phrases.iter().map(String::as_str)).collect();
        let text = described("Title", &servers);
        assert!(text.chars().count() <= DESCRIPTION, "{text}");
        if text != "Title" && count > 1 {
            assert!(names.iter().all(|name| text.contains(name.as_str())), "{text}");
        }
    }
}
