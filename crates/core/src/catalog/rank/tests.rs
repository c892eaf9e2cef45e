use std::collections::BTreeSet;
use std::sync::Arc;

use pretty_assertions::assert_eq;
use proptest::collection::vec;
use proptest::prelude::ProptestConfig;
use proptest::{prop_assert, prop_assert_eq, proptest};
use serde_json::json;

use super::*;
use crate::catalog::Definition;
use crate::raw::Raw;

/// Tools of one server, each with a description and the names of its parameters.
fn tools(all: &[(&str, &str, &[&str])]) -> Vec<Arc<ToolDefinition>> {
    let raw = all.iter().map(|(name, description, parameters)| {
        let properties: serde_json::Map<_, _> =
            parameters.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
        let schema = json!({"type": "object", "properties": properties});
        Raw::encode(&json!({"name": name, "description": description, "inputSchema": schema}))
    });
    let (read, bad) = ToolDefinition::read_all(raw);
    assert_eq!(bad, []);
    read
}

fn index(all: &[(&str, &str, &[&str])]) -> Index {
    index_by(all, Method::Words)
}

fn index_by(all: &[(&str, &str, &[&str])], method: Method) -> Index {
    let tools = tools(all);
    let entry = |tool| Entry { server: "Tracker", about: "Keeps bugs", tool };
    Index::new(tools.iter().map(|tool| entry(tool)), method)
}

fn places(hits: &[Hit]) -> Vec<usize> {
    hits.iter().map(|hit| hit.place).collect()
}

fn found(index: &Index, query: &str) -> Vec<usize> {
    places(&index.search(query, 10, |_| true))
}

#[test]
fn a_tool_is_found_by_all_that_is_said_of_it() {
    let index = index(&[
        ("list_issues", "Shows what is open", &["labelName"]),
        ("createTicket", "Writes down something new", &["title"]),
    ]);
    assert_eq!(found(&index, "listing an issue"), [0], "by its name, whatever the form");
    assert_eq!(found(&index, "write"), [1], "by its description");
    assert_eq!(found(&index, "by label"), [0], "by a parameter");
    assert_eq!(found(&index, "createticket"), [1], "by its whole name");
    assert_eq!(found(&index, "bug tracker"), [0, 1], "by its server");
    assert_eq!(found(&index, "the weather of it"), [0; 0]);
    assert_eq!(found(&index, ""), [0; 0]);
}

#[test]
fn it_does_not_matter_for_a_score_how_a_name_is_written() {
    let tools = tools(&[("create_issue", "Writes an issue on GitHub", &[]), ("now", "Time", &[])]);
    for server in ["github", "GitHub"] {
        let entries = tools.iter().map(|tool| Entry { server, about: "", tool });
        let index = Index::new(entries, Method::Words);
        let score = |query: &str| index.search(query, 1, |_| true)[0].score;
        for rest in ["issue", "passport", ""] {
            let [one, other] = ["github", "GitHub"].map(|name| score(&format!("{name} {rest}")));
            assert!((one - other).abs() < 0.01, "{server}, {rest}: {one} {other}");
        }
        assert!(score("OpenWeather issue") > 0.3, "what nobody knows counts once");
    }
}

#[test]
fn what_is_written_without_spaces_is_found_by_its_words() {
    let index = index(&[
        ("创建", "在指定的代码仓库中创建一个新的问题", &[]),
        ("delete", "Deletes", &["createOrUpdateVirtualNetworkGatewayConnectionSharedKey"]),
        ("音楽", "音楽を再生する", &[]),
    ]);
    assert_eq!(found(&index, "创建问题"), [0, 1], "it is also known what that is in English");
    assert_eq!(found(&index, "音楽の再生"), [2]);
    assert_eq!(found(&index, "virtual network"), [1]);
}

#[test]
fn rare_words_count_for_more_than_frequent_ones() {
    let index = index(&[("get_a", "", &[]), ("get_b", "", &[]), ("read_page", "", &[])]);
    assert_eq!(found(&index, "get page"), [2, 0, 1]);
}

#[test]
fn of_equals_the_first_comes_first() {
    let index = index(&[("a", "same", &[]), ("b", "same", &[]), ("c", "same same", &[])]);
    assert_eq!(found(&index, "same"), [2, 0, 1]);
    assert_eq!(places(&index.search("same", 2, |_| true)), [2, 0]);
    assert_eq!(places(&index.search("same", 0, |_| true)), [0; 0]);
    assert_eq!(places(&index.search("same", 1, |place| place != 2)), [0]);
}

#[test]
fn what_is_not_in_the_index_counts_for_nothing() {
    let few = index(&[("read_file", "", &[]), ("write_file", "", &[])]);
    let others = [("read_mail", "", &[][..]), ("read_page", "", &[]), ("write_file", "", &[])];
    let more = index(&others);
    let score = |index: &Index| index.search("read passport", 1, |_| true)[0].score;
    assert!(score(&few) > score(&more), "a word is rarer where fewer tools have it");
}

#[test]
fn the_end_of_an_endless_query_is_not_read() {
    let index = index(&[("read_file", "", &[])]);
    let query = |padding: usize| format!("{} file", "ä".repeat(padding));
    assert_eq!(found(&index, &query(10)), [0]);
    assert_eq!(found(&index, &query(MAX_QUERY)), [0; 0]);
}

#[test]
fn an_index_of_nothing_finds_nothing() {
    assert_eq!(found(&index(&[]), "anything"), [0; 0]);
}

#[test]
fn a_tool_is_found_by_what_it_means() {
    let all = [("play_song", "Plays music", &[][..]), ("remove_path", "Deletes a file", &[])];
    let (words, mixed) = (index(&all), index_by(&all, Method::Mixed));
    assert_eq!(found(&words, "erase the document"), [0; 0]);
    assert_eq!(found(&mixed, "erase the document"), [1]);
    let both: BTreeSet<_> = found(&mixed, "delete some music").into_iter().collect();
    assert_eq!(both, [0, 1].into(), "both have one of the words");
    assert_eq!(places(&mixed.search("erase the document", 10, |place| place == 0)), [0; 0]);
    assert_eq!(found(&mixed, ""), [0; 0]);
    assert_eq!(found(&mixed, "größte Übergrößen"), [0; 0], "words that no table has");
}

#[test]
fn a_score_says_how_well_a_tool_fits_whatever_else_there_is() {
    let all = [("read_file", "Reads a file", &[][..]), ("play_song", "Plays music", &[])];
    for method in [Method::Words, Method::Mixed] {
        let index = index_by(&all, method);
        let score =
            |query: &str| index.nearest(query, 1, |_| true).first().map_or(0.0, |hit| hit.score);
        let (all_of_it, half, none) =
            (score("read a file"), score("read a passport"), score("renew passport"));
        assert!(1.0 >= all_of_it && all_of_it > half && half > none, "{all_of_it} {half} {none}");
    }
}

#[test]
fn nothing_is_found_where_nothing_fits_but_something_is_nearest() {
    let all = [("read_file", "Reads a file", &[][..]), ("play_song", "Plays music", &[])];
    let index = index_by(&all, Method::Mixed);
    let query = "passport renewal for my grandmother";
    assert_eq!(found(&index, query), [0; 0]);
    assert_eq!(index.nearest(query, 1, |_| true).len(), 1);
}

#[test]
fn equal_tools_are_equally_good() {
    let same = ("read_file", "Reads a file", &["path"][..]);
    let others = (0..5).map(|_| tools(&[same]).remove(0)).collect::<Vec<_>>();
    let entries = others.iter().map(|tool| Entry { server: "", about: "", tool });
    let hits = Index::new(entries, Method::Mixed).search("read file", 4, |_| true);
    assert_eq!(places(&hits), [0, 1, 2, 3]);
    assert!(hits.iter().all(|hit| hit.score.to_bits() == hits[0].score.to_bits()));
}

#[test]
fn what_is_giant_is_read_in_part() {
    let giant = format!("{} violin", "word ".repeat(1 << 20));
    let index = index_by(&[("read_file", &giant, &[])], Method::Mixed);
    assert_eq!(found(&index, "violin"), [0; 0]);
    assert_eq!(found(&index, "word"), [0]);
    assert_eq!(found(&index, &"read file ".repeat(100_000)), [0]);
    assert_eq!(found(&index, &"\u{301}".repeat(1 << 20)), [0; 0]);
}

/// Texts of all kinds: plain words, identifiers, right-to-left and CJK scripts, combining
/// characters, control characters, and whatever else there is.
const STRANGE: &str = "[a-z_ ]{0,40}|[A-Za-z0-9]{0,60}|[א-ת ‏]{0,30}|[一-龥ぁ-ん]{0,30}|[aou\u{300}-\u{36f} ]{0,40}|\\PC{0,60}|[\u{0}-\u{20}]{0,9}|the of and|";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_is_asked_the_same_is_found_again(
        texts in vec((STRANGE, STRANGE), 0..12),
        query in STRANGE,
        limit in 0_usize..14,
        unwanted in 0_usize..12,
    ) {
        let tools: Vec<_> = texts
            .iter()
            .flat_map(|(name, about)| tools(&[(&format!("t{name}"), about, &[name])]))
            .collect();
        let entries = || tools.iter().map(|tool| Entry { server: "s", about: "", tool });
        for method in [Method::Words, Method::Mixed] {
            let index = Index::new(entries(), method);
            let hits = index.search(&query, limit, |_| true);
            prop_assert_eq!(&hits, &Index::new(entries(), method).search(&query, limit, |_| true));
            prop_assert!(hits.len() <= limit.min(tools.len()));
            prop_assert!(hits.iter().all(|hit| hit.score > 0.0 && hit.score <= 1.0));
            prop_assert!(hits.is_sorted_by(|a, b| a.score >= b.score));

            // Fewer are the first of more, and one that is not wanted leaves the others in order.
            let all = places(&index.search(&query, usize::MAX, |_| true));
            prop_assert_eq!(places(&hits), &all[..limit.min(all.len())]);
            let without = places(&index.search(&query, usize::MAX, |place| place != unwanted));
            let left: Vec<_> = all.into_iter().filter(|place| *place != unwanted).collect();
            prop_assert_eq!(without, left);
        }
    }
}

#[test]
fn the_tool_for_a_deed_comes_before_the_one_for_another() {
    let all = [
        (
            "read_file",
            "Read the contents of a file from the file system. A file of any size.",
            &[][..],
        ),
        ("write_file", "Put text on disk", &["path"]),
        ("delete_file", "Delete a file of the file system", &[]),
    ];
    let index = index_by(&all, Method::Mixed);
    assert_eq!(found(&index, "filesystem write a file")[0], 1);
    assert_eq!(found(&index, "filesystem read a file")[0], 0);
    assert_eq!(found(&index, "remove a file")[0], 2);
}

#[test]
fn a_query_in_another_language_finds_tools_in_english() {
    let all = [
        ("create_event", "Add an event to a calendar", &[][..]),
        ("remove_path", "Delete a file or a folder", &[]),
        ("send_mail", "Send an electronic mail", &[]),
    ];
    for method in [Method::Words, Method::Mixed] {
        let index = index_by(&all, method);
        for (query, place) in [
            ("Kalendereintrag anlegen", 0),
            ("Lösche die alten Dateien", 1),
            ("crée un événement dans l'agenda", 0),
            ("envoie un courriel à Marie", 2),
            ("borra la carpeta vieja", 1),
            ("mándale un correo a Ana", 2),
            ("删除这个文件夹", 1),
            ("发送邮件", 2),
        ] {
            assert_eq!(found(&index, query).first(), Some(&place), "{query}, {method:?}");
        }
    }
}

#[test]
fn a_tool_in_another_language_is_found_in_that() {
    let all =
        [("anlegen", "Legt einen Termin im Kalender an", &[][..]), ("x", "Löscht Dateien", &[])];
    let index = index_by(&all, Method::Mixed);
    assert_eq!(found(&index, "Lege einen Termin an")[0], 0);
    assert_eq!(found(&index, "Dateien")[0], 1);
}

#[test]
fn a_made_up_word_finds_nothing() {
    let all = [("read_file", "Reads a file", &[][..]), ("play_song", "Plays music", &[])];
    let index = index_by(&all, Method::Mixed);
    for query in ["zzzz", "qqx", "#", "ㅋㅋㅋ"] {
        assert_eq!(found(&index, query), [0; 0], "{query}");
    }
}

#[test]
fn a_first_tool_is_clear_by_its_score_and_by_its_lead() {
    let fit = |score, rank| Fit { score, rank };
    let next = |rank| Some(fit(0.4, rank));
    assert!(fit(SURE, 0.6).is_clear(next(0.6 - LEAD - 0.01)));
    assert!(!fit(SURE, 0.6).is_clear(next(0.6 - LEAD + 0.01)));
    assert!(!fit(SURE - 0.01, 0.6).is_clear(None));
    assert!(fit(WELL, 0.0).is_good() && !fit(WELL - 0.01, 1.0).is_good());
}
