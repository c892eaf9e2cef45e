use pretty_assertions::assert_eq;

use super::*;
use crate::config::{Launch, ServerConfig};
use crate::name::{ServerName, ToolboxName};

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

/// `count` toolboxes, each described in as many `words`.
fn many(count: usize, words: usize) -> Config {
    let description = vec!["described"; words].join(" ");
    config((0..count).map(|n| (format!("toolbox-{n}"), description.clone())))
}

#[test]
fn instructions_say_everything_where_it_fits() {
    let config = config([("dev".to_owned(), "Files and\nversion control".to_owned())]);
    assert_eq!(
        instructions(&config, ToolMode::Dynamic, Surface::Changing),
        "Toolboxes: dev.\nCall open_toolbox to use one: its tools are then in your tool list as \
         <toolbox>__<server>__<tool>.\n\ndev (2 servers): Files and version control"
    );
}

#[test]
fn instructions_step_down_and_never_pass_their_budget() {
    for count in [1, 2, 5, 10, 20, 50, 100, 200, 1000] {
        for words in [1, 10, 100, 1000] {
            for mode in [ToolMode::Dynamic, ToolMode::Proxy, ToolMode::Search] {
                let mut config = many(count, words);
                config.search.is_offered = true;
                let text = instructions(&config, mode, Surface::Changing);
                assert!(text.len() <= 2048, "{count} × {words}: {}", text.len());
                let tool = if mode == ToolMode::Search { "search_tools" } else { "open_toolbox" };
                assert!(text.contains(tool), "{count} × {words}");
                let searching = of_search(&config, mode);
                assert!(searching.len() <= 1024, "{count} × {words}: {}", searching.len());
                let words = ["described", "described…", "toolbox-", "toolboxes"];
                let is_whole = |word: &str| !word.starts_with("descr") || words.contains(&word);
                assert!(text.split_whitespace().all(is_whole), "a word was cut: {text}");
                let text = description(&config, mode);
                assert!(text.len() <= 1024, "{count} × {words:?}: {}", text.len());
            }
        }
    }
}

#[test]
fn all_names_come_within_the_first_glance_where_they_fit() {
    let config = many(15, 500);
    let text = instructions(&config, ToolMode::Proxy, Surface::Changing);
    let glance: String = text.chars().take(FIRST_GLANCE).collect();
    for toolbox in &config.toolboxes {
        assert!(glance.contains(toolbox.name.as_str()), "{} is not in {glance}", toolbox.name);
    }
}

#[test]
fn the_description_of_a_search_says_how_to_ask_and_what_there_is() {
    let config = config([
        ("dev".to_owned(), "Code and issues".to_owned()),
        ("home".to_owned(), "Lamps\nand heating".to_owned()),
    ]);
    assert_eq!(
        of_search(&config, ToolMode::Search),
        "Finds tools by what is wanted of them. use_tool calls what is found. A query is one step, \
         in English: service, verb, object (\"github create issue\"). Ask for several steps at once, \
         one query each. Toolboxes:\n- dev (srv, srv): Code and issues\n- home (srv, srv): Lamps \
         and heating"
    );
    assert!(!of_search(&config, ToolMode::Dynamic).contains("Lamps"), "open_toolbox says it");
}

#[test]
fn too_many_names_become_a_count_and_a_pointer() {
    let text = instructions(&many(300, 1), ToolMode::Dynamic, Surface::Changing);
    assert_eq!(
        text.lines().next(),
        Some(
            "Toolboxes: toolbox-0, toolbox-1, toolbox-2, toolbox-3, toolbox-4, toolbox-5, \
             toolbox-6, toolbox-7, toolbox-8, toolbox-9, toolbox-10, toolbox-11, toolbox-12, \
             toolbox-13, toolbox-14 and 285 more; the `toolbox` parameter of open_toolbox lists all 300."
        )
    );
}

#[test]
fn no_toolboxes_are_said_to_be_none() {
    let text = instructions(&config([]), ToolMode::Dynamic, Surface::Changing);
    assert!(text.starts_with("No toolboxes are configured."), "{text}");
}

#[test]
fn where_lists_do_not_change_nothing_is_said_of_switching() {
    let text = instructions(&many(1, 1), ToolMode::Activate, Surface::Constant);
    assert!(text.contains("every tool can be called."), "{text}");
    assert!(!text.contains("off"), "{text}");
}
