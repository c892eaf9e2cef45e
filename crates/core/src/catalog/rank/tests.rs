use std::collections::BTreeSet;
use std::sync::Arc;

use pretty_assertions::assert_eq;
use proptest::collection::vec;
use proptest::prelude::ProptestConfig;
use proptest::{prop_assert, prop_assert_eq, proptest};
use serde_json::json;

use super::*;
use crate::catalog::Definition;
use mcp_workbench_wire::json::RawJson;

/// Tools of one server, each as name, description and parameter names.
fn tools(all: &[(&str, &str, &[&str])]) -> Vec<Arc<ToolDefinition>> {
    let raw = all.iter().map(|(name, description, parameters)| {
        let properties: serde_json::Map<_, _> =
            parameters.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
        let schema = json!({"type": "object", "properties": properties});
        RawJson::encode(&json!({"name": name, "description": description, "inputSchema": schema}))
    });
    let (read, bad) = ToolDefinition::read_all(raw);
    assert_eq!(bad, []);
    read
}

fn index(all: &[(&str, &str, &[&str])]) -> SearchIndex {
    index_by(all, RankingMethod::Lexical)
}

fn index_by(all: &[(&str, &str, &[&str])], method: RankingMethod) -> SearchIndex {
    let tools = tools(all);
    let entry = |tool| ToolDocument { server: "Tracker", about: "Keeps bugs", tool };
    SearchIndex::new(tools.iter().map(|tool| entry(tool)), method)
}

fn places(hits: &[RankedTool]) -> Vec<usize> {
    hits.iter().map(|hit| hit.index).collect()
}

fn found(index: &SearchIndex, query: &str) -> Vec<usize> {
    places(&index.search(query, 10, |_| true))
}

#[test]
fn tool_is_found_by_each_of_its_texts() {
    let index = index(&[
        ("list_issues", "Shows what is open", &["labelName"]),
        ("createTicket", "Writes down something new", &["title"]),
    ]);
    assert_eq!(found(&index, "listing an issue"), [0, 1], "by its name, then by a synonym");
    assert_eq!(found(&index, "write"), [1], "by its description");
    assert_eq!(found(&index, "by label"), [0], "by a parameter");
    assert_eq!(found(&index, "createticket"), [1], "by its whole name");
    assert_eq!(found(&index, "bug tracker"), [0, 1], "by its server");
    assert_eq!(found(&index, "the weather of it"), [0; 0]);
    assert_eq!(found(&index, ""), [0; 0]);
}

#[test]
fn spelling_of_a_name_does_not_change_the_score() {
    let tools = tools(&[("create_issue", "Writes an issue on GitHub", &[]), ("now", "Time", &[])]);
    for server in ["github", "GitHub"] {
        let entries = tools.iter().map(|tool| ToolDocument { server, about: "", tool });
        let index = SearchIndex::new(entries, RankingMethod::Lexical);
        let score = |query: &str| index.search(query, 1, |_| true)[0].score;
        for rest in ["issue", "passport", ""] {
            let [one, other] = ["github", "GitHub"].map(|name| score(&format!("{name} {rest}")));
            assert!((one - other).abs() < 0.01, "{server}, {rest}: {one} {other}");
        }
        assert!(score("OpenWeather issue") > 0.3, "an unknown word counts once");
    }
}

#[test]
fn words_without_spaces_are_found() {
    let index = index(&[
        ("创建", "在指定的代码仓库中创建一个新的问题", &[]),
        ("delete", "Deletes", &["createOrUpdateVirtualNetworkGatewayConnectionSharedKey"]),
        ("音楽", "音楽を再生する", &[]),
    ]);
    assert_eq!(found(&index, "创建问题"), [0, 1], "the English translation matches too");
    assert_eq!(found(&index, "音楽の再生"), [2]);
    assert_eq!(found(&index, "virtual network"), [1]);
}

#[test]
fn rare_words_count_for_more_than_frequent_ones() {
    let index = index(&[("get_a", "", &[]), ("get_b", "", &[]), ("read_page", "", &[])]);
    assert_eq!(found(&index, "get page"), [2, 0, 1]);
}

#[test]
fn ties_keep_index_order() {
    let index = index(&[("a", "same", &[]), ("b", "same", &[]), ("c", "same same", &[])]);
    assert_eq!(found(&index, "same"), [2, 0, 1]);
    assert_eq!(places(&index.search("same", 2, |_| true)), [2, 0]);
    assert_eq!(places(&index.search("same", 0, |_| true)), [0; 0]);
    assert_eq!(places(&index.search("same", 1, |place| place != 2)), [0]);
}

#[test]
fn scores_do_not_depend_on_tools_outside_the_index() {
    let few = index(&[("read_file", "", &[]), ("write_file", "", &[])]);
    let others = [("read_mail", "", &[][..]), ("read_page", "", &[]), ("write_file", "", &[])];
    let more = index(&others);
    let score = |index: &SearchIndex| index.search("read passport", 1, |_| true)[0].score;
    assert!(score(&few) > score(&more), "a word in fewer tools has more weight");
}

#[test]
fn long_query_is_truncated() {
    let index = index(&[("read_file", "", &[])]);
    let query = |padding: usize| format!("{} file", "ä".repeat(padding));
    assert_eq!(found(&index, &query(10)), [0]);
    assert_eq!(found(&index, &query(MAX_QUERY)), [0; 0]);
}

#[test]
fn empty_index_finds_nothing() {
    assert_eq!(found(&index(&[]), "anything"), [0; 0]);
}

#[test]
fn tool_is_found_by_meaning() {
    let all = [("play_song", "Plays music", &[][..]), ("remove_path", "Deletes a file", &[])];
    let (words, mixed) = (index(&all), index_by(&all, RankingMethod::Hybrid));
    assert_eq!(found(&words, "dispose of the document"), [0; 0]);
    assert_eq!(found(&mixed, "dispose of the document"), [1]);
    let both: BTreeSet<_> = found(&mixed, "delete some music").into_iter().collect();
    assert_eq!(both, [0, 1].into(), "each tool has one of the words");
    assert_eq!(places(&mixed.search("dispose of the document", 10, |index| index == 0)), [0; 0]);
    assert_eq!(found(&mixed, ""), [0; 0]);
    assert_eq!(found(&mixed, "größte Übergrößen"), [0; 0], "words without vectors");
}

#[test]
fn score_grows_with_the_share_of_matching_words() {
    let all = [("read_file", "Reads a file", &[][..]), ("play_song", "Plays music", &[])];
    for method in [RankingMethod::Lexical, RankingMethod::Hybrid] {
        let index = index_by(&all, method);
        let score = |query: &str| {
            index.search_nearest(query, 1, |_| true).first().map_or(0.0, |hit| hit.score)
        };
        let (all_of_it, half, none) =
            (score("read a file"), score("read a passport"), score("renew passport"));
        assert!(1.0 >= all_of_it && all_of_it > half && half > none, "{all_of_it} {half} {none}");
    }
}

#[test]
fn irrelevant_query_finds_nothing_but_has_a_nearest_tool() {
    let all = [("read_file", "Reads a file", &[][..]), ("play_song", "Plays music", &[])];
    let index = index_by(&all, RankingMethod::Hybrid);
    let query = "passport renewal for my grandmother";
    assert_eq!(found(&index, query), [0; 0]);
    assert_eq!(index.search_nearest(query, 1, |_| true).len(), 1);
}

#[test]
fn equal_tools_have_equal_scores() {
    let same = ("read_file", "Reads a file", &["path"][..]);
    let others = (0..5).map(|_| tools(&[same]).remove(0)).collect::<Vec<_>>();
    let entries = others.iter().map(|tool| ToolDocument { server: "", about: "", tool });
    let hits = SearchIndex::new(entries, RankingMethod::Hybrid).search("read file", 4, |_| true);
    assert_eq!(places(&hits), [0, 1, 2, 3]);
    assert!(hits.iter().all(|hit| hit.score.to_bits() == hits[0].score.to_bits()));
}

#[test]
fn giant_texts_are_truncated() {
    let giant = format!("{} violin", "word ".repeat(1 << 20));
    let index = index_by(&[("read_file", &giant, &[])], RankingMethod::Hybrid);
    assert_eq!(found(&index, "violin"), [0; 0]);
    assert_eq!(found(&index, "word"), [0]);
    assert_eq!(found(&index, &"read file ".repeat(100_000)), [0]);
    assert_eq!(found(&index, &"\u{301}".repeat(1 << 20)), [0; 0]);
}

/// Odd texts: identifiers, right-to-left and CJK scripts, combining and control characters.
const STRANGE: &str = "[a-z_ ]{0,40}|[A-Za-z0-9]{0,60}|[א-ת ‏]{0,30}|[一-龥ぁ-ん]{0,30}|[aou\u{300}-\u{36f} ]{0,40}|\\PC{0,60}|[\u{0}-\u{20}]{0,9}|the of and|";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn search_is_deterministic_for_any_query(
        texts in vec((STRANGE, STRANGE), 0..12),
        query in STRANGE,
        limit in 0_usize..14,
        unwanted in 0_usize..12,
    ) {
        let tools: Vec<_> = texts
            .iter()
            .flat_map(|(name, about)| tools(&[(&format!("t{name}"), about, &[name])]))
            .collect();
        let entries = || tools.iter().map(|tool| ToolDocument { server: "s", about: "", tool });
        for method in [RankingMethod::Lexical, RankingMethod::Hybrid] {
            let index = SearchIndex::new(entries(), method);
            let hits = index.search(&query, limit, |_| true);
            prop_assert_eq!(&hits, &SearchIndex::new(entries(), method).search(&query, limit, |_| true));
            prop_assert!(hits.len() <= limit.min(tools.len()));
            prop_assert!(hits.iter().all(|hit| hit.score > 0.0 && hit.score <= 1.0));
            prop_assert!(hits.is_sorted_by(|a, b| a.score >= b.score));

            // A smaller limit gives a prefix, and excluding a tool keeps the order of the others.
            let all = places(&index.search(&query, usize::MAX, |_| true));
            prop_assert_eq!(places(&hits), &all[..limit.min(all.len())]);
            let without = places(&index.search(&query, usize::MAX, |place| place != unwanted));
            let left: Vec<_> = all.into_iter().filter(|place| *place != unwanted).collect();
            prop_assert_eq!(without, left);
        }
    }
}

#[test]
fn tool_with_the_matching_operation_ranks_first() {
    let all = [
        (
            "read_file",
            "Read the contents of a file from the file system. A file of any size.",
            &[][..],
        ),
        ("write_file", "Put text on disk", &["path"]),
        ("delete_file", "Delete a file of the file system", &[]),
    ];
    let index = index_by(&all, RankingMethod::Hybrid);
    assert_eq!(found(&index, "filesystem write a file")[0], 1);
    assert_eq!(found(&index, "filesystem read a file")[0], 0);
    assert_eq!(found(&index, "remove a file")[0], 2);
}

#[test]
fn foreign_query_finds_english_tools() {
    let all = [
        ("create_event", "Add an event to a calendar", &[][..]),
        ("remove_path", "Delete a file or a folder", &[]),
        ("send_mail", "Send an electronic mail", &[]),
    ];
    for method in [RankingMethod::Lexical, RankingMethod::Hybrid] {
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
            ("ファイルを削除して", 1),
            ("invia una mail a Maria", 2),
            ("exclua a pasta antiga", 1),
        ] {
            assert_eq!(found(&index, query).first(), Some(&place), "{query}, {method:?}");
        }
    }
}

#[test]
fn foreign_tool_is_found_in_its_own_language() {
    let all =
        [("anlegen", "Legt einen Termin im Kalender an", &[][..]), ("x", "Löscht Dateien", &[])];
    let index = index_by(&all, RankingMethod::Hybrid);
    assert_eq!(found(&index, "Lege einen Termin an")[0], 0);
    assert_eq!(found(&index, "Dateien")[0], 1);
}

#[test]
fn a_made_up_word_finds_nothing() {
    let all = [("read_file", "Reads a file", &[][..]), ("play_song", "Plays music", &[])];
    let index = index_by(&all, RankingMethod::Hybrid);
    for query in ["zzzz", "qqx", "#", "ㅋㅋㅋ"] {
        assert_eq!(found(&index, query), [0; 0], "{query}");
    }
}

#[test]
fn confidence_requires_score_and_margin() {
    let fit = |score, rank| Relevance { score, rank };
    let next = |rank| Some(fit(0.4, rank));
    assert!(fit(CONFIDENT_SCORE, 0.6).is_confident(next(0.6 - CONFIDENT_MARGIN - 0.01)));
    assert!(!fit(CONFIDENT_SCORE, 0.6).is_confident(next(0.6 - CONFIDENT_MARGIN + 0.01)));
    assert!(!fit(CONFIDENT_SCORE - 0.01, 0.6).is_confident(None));
    assert!(fit(GOOD_SCORE, 0.0).is_strong() && !fit(GOOD_SCORE - 0.01, 1.0).is_strong());
}

#[test]
fn tool_is_first_for_its_name_in_any_spelling() {
    let all = [
        (
            "create_issue_link",
            "Create a link between an issue and another issue to create",
            &[][..],
        ),
        ("create_issue", "Report something", &[]),
        ("createMock", "A mock", &[]),
        ("list_mocks", "createMock makes what createMock lists; createMock", &[]),
    ];
    let index = index_by(&all, RankingMethod::Hybrid);
    for query in ["create_issue", "createIssue", "create issue", "Create-Issue"] {
        assert_eq!(found(&index, query)[0], 1, "{query}");
    }
    for query in ["createMock", "create_mock", "create mock"] {
        assert_eq!(found(&index, query)[0], 2, "{query}");
    }
}

#[test]
fn name_without_other_words_is_ahead() {
    let all = [
        ("create_issue_link", "Create a link between two issues in Jira", &["issue"][..]),
        ("create_issue", "Create an issue in Jira", &["title"]),
        ("create_issue_comment", "Create a comment on an issue in Jira", &["issue"]),
    ];
    let index = index_by(&all, RankingMethod::Hybrid);
    assert_eq!(found(&index, "create issue in Jira")[0], 1);
}

#[test]
fn compounds_are_found_together_and_apart() {
    let all = [
        ("generate_boxplot", "Draws one", &[][..]),
        ("search_documents", "A full text search", &[]),
        ("list_colors", "Names of colors", &[]),
    ];
    let index = index(&all);
    assert_eq!(found(&index, "a box plot")[0], 0);
    assert_eq!(found(&index, "fulltext"), [1]);
    assert_eq!(found(&index, "full-text"), [1]);
    assert_eq!(found(&index, "Boxplot")[0], 0);
}

#[test]
fn synonyms_are_found() {
    let index = index(&[("mute_host", "Of a host", &[][..]), ("list_hosts", "All", &[])]);
    assert_eq!(found(&index, "silence"), [0]);
}

#[test]
fn tool_for_the_opposite_is_behind() {
    let all = [
        ("unmute_chat", "Unmute a chat so that you hear of its messages again", &["chat"][..]),
        ("mute_chat", "Turn off the sound of a chat", &["chat"]),
        ("export_contacts", "Export the contacts", &[]),
        ("import_contacts", "Read contacts from a file", &[]),
    ];
    let index = index_by(&all, RankingMethod::Hybrid);
    for (query, place) in [("mute the chat", 1), ("unmute the chat", 0), ("import the contacts", 3)]
    {
        assert_eq!(found(&index, query)[0], place, "{query}");
    }
}

#[test]
fn server_named_like_a_common_word_attracts_no_other_queries() {
    let all = tools(&[
        ("count_words", "Count the words of a text", &["text"][..]),
        ("merge_cells", "Merge the cells of a table", &[]),
        ("insert_image", "Insert an image", &[]),
    ]);
    let servers = ["text", "word", "word"];
    let entries = all.iter().zip(servers);
    let entries = entries.map(|(tool, server)| ToolDocument { server, about: "", tool });
    let index = SearchIndex::new(entries, RankingMethod::Hybrid);
    assert_eq!(found(&index, "how often is each word in this text")[0], 0);
    assert_eq!(found(&index, "word count")[0], 0);
}

#[test]
fn long_description_does_not_hide_its_first_sentence() {
    let rest = "Paging, quotas, regions, retries and formats of the answer. ".repeat(6);
    let long = format!("Play a song on the speakers. {rest}");
    let all = [("start", &*long, &[][..]), ("pause", "Stop the speakers for a while", &[])];
    assert_eq!(found(&index_by(&all, RankingMethod::Hybrid), "play some music")[0], 0);
    assert_eq!(split_first_sentence(&long).0, "Play a song on the speakers.");
    assert_eq!(
        split_first_sentence("E. g. this one is it. No."),
        ("E. g. this one is it.", " No.")
    );
    assert_eq!(split_first_sentence("A heading\n\nText. More"), ("A heading", "\n\nText. More"));
    assert_eq!(split_first_sentence(""), ("", ""));
}
