use std::collections::BTreeSet;

use pretty_assertions::assert_eq;
use proptest::{prop_assert, proptest};

use super::*;

/// Translates a query for tools that use the words `known`.
fn text_for(query: &str, known: &[&str]) -> String {
    parse_query(query, |word| known.contains(&word)).text.into_owned()
}

fn text(query: &str) -> String {
    text_for(query, &[])
}

#[track_caller]
fn says(query: &str, words: &[&str]) {
    let text = text(query);
    let said: BTreeSet<&str> = text.split(' ').collect();
    assert!(words.iter().all(|word| said.contains(word)), "{query}: {text}");
}

#[test]
fn every_line_of_the_list_has_each_language() {
    for line in WORDS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let columns: Vec<_> = line.split('|').map(str::trim).collect();
        assert_eq!(columns.len(), 8, "{line}");
        assert!(columns.iter().all(|column| !column.is_empty()), "{line}");
        assert!(columns[0].bytes().all(|b| b.is_ascii_lowercase() || b == b' '), "{line}");
        let twice = columns.iter().find(|column| {
            let words: Vec<_> = column.split(' ').collect();
            words.iter().collect::<BTreeSet<_>>().len() != words.len()
        });
        assert_eq!(twice, None, "{line}");
    }
    assert!(TABLE.words.iter().all(|words| words.len() > 300));
    for words in [&TABLE.chinese, &TABLE.japanese] {
        assert!(words.len() > 300);
        assert!(words.keys().all(|word| word.chars().count() <= LONGEST));
    }
}

#[test]
fn inflected_words_are_translated() {
    for (query, words) in [
        ("Lösche die alte Datei", &["delete", "file"][..]),
        ("die Dateien sind zu löschen", &["delete", "file"]),
        ("wurde der Ordner gelöscht?", &["delete", "folder"]),
        ("aendere das Passwort", &["update", "password"]),
        ("einen Termin anzulegen", &["create", "event"]),
        ("Supprimez les fichiers", &["delete", "file"]),
        ("j'aimerais créer un rendez-vous", &["create", "event"]),
        ("Bórralo de la carpeta", &["delete", "folder"]),
        ("envíame los archivos", &["send", "file"]),
        ("¿Qué citas tengo el lunes?", &["which", "event", "lunes"]),
        ("创建一个新的日历事件", &["create", "calendar", "event"]),
        ("刪除舊檔案", &["delete", "file"]),
    ] {
        says(query, words);
    }
}

#[test]
fn compounds_are_translated_by_their_parts() {
    says("Kalendereintrag erstellen", &["calendar", "create"]);
    says("zeige die Kundendaten", &["customer", "data"]);
    says("die Rechnungsnummer", &["invoice", "number"]);
    says("den Zahnarzttermin verschieben", &["event", "move"]);
}

#[test]
fn english_queries_stay_unchanged() {
    for query in [
        "delete the old file",
        "die in the arena of the game",
        "weather in Los Angeles",
        "swim one kilometre",
        "send a message to the channel de la Rosa on slack",
        "open github issue",
        "",
        "#42 - ??",
    ] {
        let reading = parse_query(query, |_| false);
        assert_eq!((&*reading.text, reading.meant.len()), (query, 0));
    }
}

#[test]
fn words_that_tools_use_count_as_written() {
    // Without a particle, the query may be English.
    assert_eq!(text_for("list tables", &["list", "tables"]), "list tables");
    let reading = parse_query("chat message", |_| true);
    assert_eq!((reading.meant.len(), reading.runs), (0, vec!["chat", "message"]));
    let reading = parse_query("Lösche die Datei", |word| word == "datei");
    assert_eq!(reading.meant[1].own.as_deref(), Some("datei"));
    assert_eq!(
        text_for("GitHub Issue für den Fehler", &["github", "issue"]),
        "GitHub Issue error bug"
    );
}

#[test]
fn japanese_is_split_by_longest_match() {
    says("ファイルを削除する", &["delete", "file"]);
    says("会議の議事録をメールで送って", &["meeting", "mail", "send"]);
    says("ロック解除して", &["unlock"]);
    let reading = parse_query("ロック解除して", |_| false);
    assert_eq!(reading.meant.len(), 1, "`ロック` is part of a longer word");
    assert!(!text("手紙を書く").contains("toilet"), "not the Chinese word of the same characters");
}

#[test]
fn italian_and_portuguese_are_told_from_spanish() {
    says("elimina il file dalla cartella", &["delete", "file", "folder"]);
    says("crea un evento nel calendario", &["create", "event", "calendar"]);
    says("inviami le fatture", &["send", "invoice"]);
    says("exclua o arquivo da pasta", &["delete", "file", "folder"]);
    says("criar um evento no calendário", &["create", "event", "calendar"]);
    says("apague a luz", &["off", "light"]);
    says("busque los archivos", &["search", "file"]);
    says("as últimas notícias", &["last", "news"]);
}

#[test]
fn products_are_known_by_their_names_in_other_scripts() {
    for (query, words) in [
        ("在飞书里发送消息", &["lark", "feishu", "send", "message"][..]),
        ("在飛書裡發送消息", &["lark", "send"]),
        ("スラックにメッセージを送る", &["slack", "message", "send"]),
        ("카카오톡으로 메시지", &["kakaotalk"]),
        ("открой телеграм", &["telegram"]),
        ("feishu message", &["lark", "message"]),
    ] {
        says(query, words);
    }
    assert_eq!(text_for("feishu message", &["feishu"]), "feishu message", "as tools write it");
}

#[test]
fn synonyms_are_found_by_stem() {
    assert!(synonyms("mute").contains(&"silence") && synonyms("silenc").contains(&"mute"));
    assert!(synonyms("delet").contains(&"remove"));
    assert_eq!(synonyms("xyzzi"), [""; 0]);
}

proptest! {
    #[test]
    fn any_query_is_parsed_within_bounds(
        query in "\\PC{0,80}|[a-zäöüß ]{0,80}|[a-zéèçñ' ]{0,80}|[一-龥 ]{0,40}|[ぁ-んァ-ヶー一-龥]{0,40}|[가-힣 ]{0,20}|[zuget]{0,60}|die [a-zäöüßéœ]{0,60}",
    ) {
        let reading = parse_query(&query, |word| word.len() % 2 == 0);
        prop_assert!(reading.meant.len() <= 3 * MAX_LOOKUPS);
        prop_assert!(reading.text.len() <= query.len() + 3 * MAX_LOOKUPS * 40);
    }
}
