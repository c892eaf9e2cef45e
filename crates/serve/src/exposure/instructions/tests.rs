use pretty_assertions::assert_eq;

use super::*;
use crate::exposure::ListMutability;
use crate::exposure::activate;
use crate::exposure::direct::DIRECT;
use crate::exposure::mode::{Instructions, Mode};
use crate::exposure::search::Search;
use crate::exposure::toolbox_mode::{ANSWER, LIST, LIST_AND_ANSWER};
use mcp_workbench_names::{ServerName, ToolboxName};
use mcp_workbench_settings::{Launch, ServerConfig};

fn config(toolboxes: impl IntoIterator<Item = (String, String)>) -> Config {
    let launch = Launch::Unsupported { reason: String::new(), hint: String::new() };
    let server = ServerConfig::new(ServerName::new("srv"), launch);
    let toolboxes = toolboxes.into_iter().map(|(name, description)| ToolboxConfig {
        name: ToolboxName::new(&name),
        description,
        namespace: name,
        servers: vec![server.clone(), server.clone()],
    });
    Config { toolboxes: toolboxes.collect(), ..Config::default() }
}

/// `count` toolboxes with descriptions of `words` words.
fn many(count: usize, words: usize) -> Config {
    let description = vec!["described"; words].join(" ");
    config((0..count).map(|n| (format!("toolbox-{n}"), description.clone())))
}

#[test]
fn short_instructions_are_complete() {
    let config = config([("dev".to_owned(), "Files and\nversion control.".to_owned())]);
    assert_eq!(
        of(&config, &LIST),
        "Toolboxes: dev (Files and version control). Call open_toolbox to use one.\nTools of open \
         toolboxes are in your tool list as <toolbox>__<server>__<tool>."
    );
    assert_eq!(
        of(&config, &DIRECT),
        "Toolboxes: dev (Files and version control). Their tools are in your tool list."
    );
}

#[test]
fn long_descriptions_follow_the_first_line_in_full() {
    let description = ["described"; 20].join(" ");
    let config = config(["a", "b"].map(|name| (name.to_owned(), description.clone())));
    let text = of(&config, &ANSWER);
    let cut = ["described"; 8].join(" ");
    assert!(
        text.starts_with(&format!(
            "Toolboxes: a ({cut}…), b ({cut}…). open_toolbox shows the tools of one, use_tool calls \
             them.\nYour tool list never changes: call use_tool {{"
        )),
        "{text}"
    );
    assert!(
        text.ends_with(&format!("\n\na (srv, srv): {description}\nb (srv, srv): {description}"))
    );
}

// invariant: text-is-bounded
#[test]
fn first_line_names_the_toolboxes_and_the_tool_to_call() {
    let modes: [(&dyn Mode, &str); 5] = [
        (&LIST, "open_toolbox"),
        (&LIST_AND_ANSWER, "open_toolbox"),
        (&ANSWER, "use_tool"),
        (&Search, "search_tools"),
        (&activate::FOLLOWED, "toolman_activate"),
    ];
    for (mode, call) in modes {
        for (count, words) in [(1, 1), (3, 4), (10, 5), (10, 500), (20, 3), (500, 1)] {
            let text = of(&many(count, words), mode);
            let line = text.lines().next().unwrap();
            assert!(line.chars().count() <= PREVIEW_CHARS, "{line}");
            let says = count >= 20 || line.contains("toolbox-0");
            assert!(says, "{count} × {words}: {line}");
            let is_pointer = count >= 20 && call == "use_tool";
            assert!(line.contains(call) || is_pointer, "{count} × {words}: {line}");
            assert!(count > 3 || line.contains(" (described"), "{count} × {words}: {line}");
        }
    }
}

#[test]
fn instructions_respect_a_small_client_limit() {
    for count in [1, 10, 300] {
        let text = within(&many(count, 20), &ANSWER, ListMutability::Fixed, 250);
        assert!(text.len() <= 270 && !text.contains('\n'), "{text}");
    }
}

fn of(config: &Config, mode: &dyn Mode) -> String {
    within(config, mode, ListMutability::Mutable, DEFAULT_MAX_INSTRUCTIONS)
}

fn within(config: &Config, mode: &dyn Mode, mutability: ListMutability, max: usize) -> String {
    match mode.instructions(config, mutability) {
        Instructions::Hints(hints) => render(config, &hints, max),
        Instructions::Own(text) => text,
    }
}

// invariant: text-is-bounded
#[test]
fn instructions_degrade_and_never_exceed_their_limit() {
    for count in [1, 2, 5, 10, 20, 50, 100, 200, 1000] {
        for words in [1, 10, 100, 1000] {
            let modes: [&dyn Mode; 4] = [&LIST, &LIST_AND_ANSWER, &ANSWER, &Search];
            for (mode, delivery) in modes.into_iter().zip([
                Some(ToolDelivery::List),
                Some(ToolDelivery::Both),
                Some(ToolDelivery::Answer),
                None,
            ]) {
                let mut config = many(count, words);
                config.search.offers_tool = true;
                let text = of(&config, mode);
                assert!(text.len() <= 2048, "{count} × {words}: {}", text.len());
                let tool = if delivery.is_some() { "open_toolbox" } else { "search_tools" };
                assert!(text.contains(tool), "{count} × {words}");
                let searching = search_tools_description(&config, delivery);
                assert!(searching.len() <= 1024, "{count} × {words}: {}", searching.len());
                let words = ["described", "described…", "toolbox-", "toolboxes"];
                let is_whole = |word: &str| !word.starts_with("descr") || words.contains(&word);
                let mut all =
                    text.split_whitespace().map(|word| word.trim_end_matches([')', ',', '.']));
                assert!(all.all(is_whole), "a word was cut: {text}");
                let text = open_toolbox_description(
                    &config,
                    delivery.unwrap_or(ToolDelivery::Answer),
                    false,
                );
                assert!(text.len() <= 1024, "{count} × {words:?}: {}", text.len());
            }
        }
    }
}

// invariant: text-is-bounded
#[test]
fn all_names_fit_into_the_250_character_preview() {
    let config = many(15, 500);
    let text = of(&config, &ANSWER);
    let glance: String = text.chars().take(PREVIEW_CHARS).collect();
    for toolbox in &config.toolboxes {
        assert!(glance.contains(toolbox.name.as_str()), "{} is not in {glance}", toolbox.name);
    }
}

#[test]
fn description_omits_toolboxes_known_from_the_instructions() {
    let config = many(3, 5);
    let text = open_toolbox_description(&config, ToolDelivery::Answer, true);
    assert_eq!(
        text,
        "Opens a toolbox: starts its servers and lists their tools; use_tool calls them."
    );
}

#[test]
fn search_description_explains_queries_and_lists_toolboxes() {
    let config = config([
        ("dev".to_owned(), "Code and issues".to_owned()),
        ("home".to_owned(), "Lamps\nand heating".to_owned()),
    ]);
    assert_eq!(
        search_tools_description(&config, None),
        "Searches for tools by task. Call results with use_tool. A query is one step, in English: \
         service, verb, object (\"github create issue\"). For several steps, send one query each in \
         one call. Toolboxes:\n- dev (srv, srv): Code and issues\n- home (srv, srv): Lamps and heating"
    );
    assert!(
        !search_tools_description(&config, Some(ToolDelivery::List)).contains("Lamps"),
        "open_toolbox lists the toolboxes"
    );
}

#[test]
fn too_many_names_for_the_first_line_are_listed_below() {
    let text = of(&many(100, 1), &LIST);
    assert_eq!(
        text.lines().next(),
        Some("There are 100 toolboxes, listed below. Call open_toolbox to use one.")
    );
    for n in 0..100 {
        assert_eq!(text.matches(&format!("\ntoolbox-{n} ")).count(), usize::from(n < 73), "{text}");
        let bare = text.matches(&format!("\ntoolbox-{n}\n")).count();
        assert_eq!(bare, usize::from(n >= 73), "{text}");
    }
}

#[test]
fn too_many_names_become_a_count_and_a_pointer() {
    let text = of(&many(300, 1), &LIST);
    assert_eq!(
        text.lines().next(),
        Some(
            "Toolboxes: toolbox-0, toolbox-1, toolbox-2, toolbox-3, toolbox-4, toolbox-5, \
             toolbox-6, toolbox-7, toolbox-8, toolbox-9, toolbox-10, toolbox-11, toolbox-12, \
             toolbox-13, toolbox-14 and 285 more; the `toolbox` parameter of open_toolbox lists all 300."
        )
    );
}

/// Toolboxes as `setup` writes them for many servers.
fn realistic(count: usize) -> Config {
    let launch = Launch::Unsupported { reason: String::new(), hint: String::new() };
    let toolboxes = (0..count).map(|n| {
        let name = format!("purpose-{n}");
        let servers = (0..3)
            .map(|m| ServerConfig::new(ServerName::new(format!("srv{n}-{m}")), launch.clone()));
        ToolboxConfig {
            name: ToolboxName::new(&name),
            description: format!("srv{n}-0 (issues and projects of the team), srv{n}-1, srv{n}-2"),
            namespace: name,
            servers: servers.collect(),
        }
    });
    Config { toolboxes: toolboxes.collect(), ..Config::default() }
}

// invariant: text-is-bounded
#[test]
fn with_38_toolboxes_the_agent_sees_the_servers_of_each_once() {
    for mode in [&LIST, &LIST_AND_ANSWER, &ANSWER] {
        let text = of(&realistic(38), mode);
        assert!(text.len() <= DEFAULT_MAX_INSTRUCTIONS, "{}", text.len());
        assert!(text.len() > DEFAULT_MAX_INSTRUCTIONS - 60, "{} bytes are used", text.len());
        let words: Vec<&str> =
            text.split(|c: char| c.is_whitespace() || ",;:()".contains(c)).collect();
        for n in 0..38 {
            let count = |wanted: String| words.iter().filter(|word| **word == wanted).count();
            assert_eq!(count(format!("purpose-{n}")), 1, "{text}");
            for m in 0..3 {
                let count = count(format!("srv{n}-{m}"));
                assert!(count == 1 || m == 0 && count == 2, "srv{n}-{m}: {count} in {text}");
            }
        }
    }
}

// invariant: text-is-bounded
#[test]
fn lists_of_toolboxes_use_the_limit_and_never_exceed_it() {
    for count in 1..80 {
        let config = realistic(count);
        for max in [250, 251, 700, 2047, 2048, 4096] {
            let text = within(&config, &ANSWER, ListMutability::Fixed, max);
            let is_preview = text.chars().count() <= PREVIEW_CHARS;
            assert!(text.len() <= max || is_preview, "{count}, {max}: {text}");
            let parentheses = |which: char| text.matches(which).count();
            assert!(parentheses('(') == parentheses(')'), "{text}");
        }
        for description in [
            open_toolbox_description(&config, ToolDelivery::Both, false),
            search_tools_description(&config, None),
        ] {
            assert!(description.len() <= MAX_DESCRIPTION, "{count}: {description}");
            let has_room = description.len() + 90 < MAX_DESCRIPTION;
            assert!(!has_room || !(20..=60).contains(&count), "{count}: {}", description.len());
        }
    }
}

#[test]
fn servers_that_the_description_or_the_name_says_are_not_repeated() {
    let mut config = realistic(2);
    config.toolboxes[0].description = "srv0-0 (a), srv0-1 (b), srv0-2".to_owned();
    config.toolboxes[1].servers.truncate(1);
    config.toolboxes[1].name = ToolboxName::new("srv1-0");
    config.toolboxes[1].description = "Something".to_owned();
    let list = toolbox_lines(&config, "\n", 2000).unwrap();
    assert_eq!(list, "\npurpose-0: srv0-0 (a), srv0-1 (b), srv0-2\nsrv1-0: Something");
}

#[test]
fn missing_toolboxes_are_reported() {
    let text = of(&config([]), &LIST);
    assert!(text.starts_with("No toolboxes are configured."), "{text}");
}

#[test]
fn fixed_lists_do_not_mention_switching() {
    let text =
        within(&many(1, 1), &activate::FOLLOWED, ListMutability::Fixed, DEFAULT_MAX_INSTRUCTIONS);
    assert!(text.contains("Every tool can be called"), "{text}");
    assert!(!text.contains("off"), "{text}");
}
