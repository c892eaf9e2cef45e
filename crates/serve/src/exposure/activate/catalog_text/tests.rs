use pretty_assertions::assert_eq;

use super::*;
use crate::exposure::activate::tests::item;
use mcp_workbench_core::state::Activation;

const DOCUMENT: &str = "\
Head

TOOLS:
* pjpd_list_projects: List all projects in the workspace
* pjpd_get_task: Get a task by ID
  pjpd_create_task: Create a new task in a project
  vec_search: Search documents by semantic similarity

RESOURCES:
* pjpd_projects://all: All project summaries
  vec_data://stats: Index statistics";

fn items() -> Vec<NamespacedPrimitive> {
    vec![
        item(PrimitiveKind::Tool, "pjpd_list_projects", "List all projects in the workspace", true),
        item(PrimitiveKind::Tool, "pjpd_get_task", "Get a task by ID", true),
        item(PrimitiveKind::Tool, "pjpd_create_task", "Create a new\n task in a   project", false),
        item(PrimitiveKind::Resource, "pjpd_projects://all", "All project summaries", true),
        item(PrimitiveKind::Tool, "vec_search", "Search documents by semantic similarity", false),
        item(PrimitiveKind::ResourceTemplate, "vec_data://stats", "Index statistics", false),
    ]
}

fn write(items: &[NamespacedPrimitive], active: &ActivePrimitives, max: usize) -> RenderedCatalog {
    let items: Vec<_> = items.iter().collect();
    CatalogText { head: "Head", items: &items, active, missing: &[] }.write(max)
}

#[test]
fn renders_the_documented_layout() {
    let written = write(&items(), &ActivePrimitives::default(), 10_000);
    assert_eq!(written.text, DOCUMENT);
    assert!(written.is_whole);
}

#[test]
fn marks_follow_the_switches() {
    let mut active = ActivePrimitives::default();
    let switch = |kind, name: &str, is_on| Activation { kind, name: name.to_owned(), is_on };
    active.apply(vec![
        switch(PrimitiveKind::Tool, "pjpd_get_task", false),
        switch(PrimitiveKind::Resource, "vec_data://stats", true),
    ]);
    let text = write(&items(), &active, 10_000).text;
    assert!(text.contains("\n  pjpd_get_task: "), "{text}");
    assert!(text.contains("\n* vec_data://stats: "), "{text}");
}

#[test]
fn descriptions_are_cut_at_132_characters_and_a_word_boundary() {
    let words = "wörter ".repeat(40);
    let text =
        short_description(&item(PrimitiveKind::Tool, "x", &words, true), MAX_DESCRIPTION).unwrap();
    assert_eq!(text.chars().count(), 18 * 7);
    assert!(text.ends_with("wörter…"), "{text}");
    let exactly = "ä".repeat(132);
    assert_eq!(
        short_description(&item(PrimitiveKind::Tool, "x", &exactly, true), 132).unwrap(),
        exactly
    );
    let longer = "ä".repeat(133);
    let cut = short_description(&item(PrimitiveKind::Tool, "x", &longer, true), 132).unwrap();
    assert_eq!(cut.chars().count(), 132);
}

#[test]
fn catalog_shrinks_to_the_limit_and_points_to_the_rest() {
    let long = "word ".repeat(26);
    let items: Vec<_> = (0..40)
        .map(|n| item(PrimitiveKind::Tool, &format!("box_tool_{n}"), &long, n < 4))
        .collect();
    let active = ActivePrimitives::default();
    for max in [6000, 4000, 2700, 1400, 900, 300, 215] {
        let written = write(&items, &active, max);
        assert!(written.text.len() <= max, "{max}: {}", written.text);
        assert_eq!(written.is_whole, max == 6000);
        assert!(written.is_whole || written.text.ends_with(SHORTENED));
    }
    let text = |max| write(&items, &active, max).text;
    assert!(text(1400).contains("\n* box_tool_0: word"), "active tools keep longer descriptions");
    assert!(text(1400).contains("\n  box_tool_39\n"));
    assert!(
        text(300).contains("\n* box_tool_3\n  box_tool_4\n") && text(300).contains(" more tools\n"),
        "{}",
        text(300)
    );
    assert_eq!(text(1400), text(1400), "the same listings give the same text");
}

#[test]
fn fills_the_limit_and_collapses_the_largest_toolboxes_first() {
    let servers = [("git", 12), ("browser", 32), ("notes", 3), ("db", 6), ("files", 14)];
    let items: Vec<_> = servers
        .iter()
        .flat_map(|(server, count)| {
            (0..*count).map(move |n| {
                let name = format!("{server}_a_rather_long_name_{n}");
                item(PrimitiveKind::Tool, &name, "Does what its name says", false)
            })
        })
        .chain([item(PrimitiveKind::Prompt, "notes_summary", "Summarizes", true)])
        .collect();
    let active = ActivePrimitives::default();
    for max in (400..6000).step_by(53) {
        let written = write(&items, &active, max);
        let left = max.checked_sub(written.text.len());
        let left = left.unwrap_or_else(|| panic!("{max}: {}", written.text));
        // A line that doesn't fit, or the next step of one description.
        assert!(written.is_whole || left < 80, "{left} of {max} unused: {}", written.text);
    }
    let text = write(&items, &active, 1400).text;
    assert!(text.contains("\n  browser: 24 more tools\n"), "{text}");
    assert!(text.contains("\n  git_a_rather_long_name_11\n"), "{text}");
    assert!(text.contains("\n  notes_a_rather_long_name_2\n"), "{text}");
    assert!(!text.contains("resources"), "prompts are not listed: {text}");
    let text = write(&items, &active, 2600).text;
    assert!(text.contains("git_a_rather_long_name_0: Does what"), "{text}");
    assert!(text.contains("\n  files_a_rather_long_name_13\n"), "{text}");
}

// invariant: text-is-bounded
#[test]
fn names_of_active_tools_stay_as_long_as_they_fit() {
    let items: Vec<_> = (0..8)
        .flat_map(|server| (0..41).map(move |tool| (server, tool)))
        .map(|(server, tool)| {
            let name = format!("server{server}_a_rather_long_name_of_a_tool_{tool}");
            item(PrimitiveKind::Tool, &name, "Does something", tool == 40)
        })
        .collect();
    let active = ActivePrimitives::default();
    for max in (250..20_000).step_by(61) {
        let text = write(&items, &active, max).text;
        assert!(text.len() <= max, "{max}: {text}");
        let shown = text.matches("\n* ").count();
        let names = text.matches("\n  server").count();
        assert!(names == 0 || shown == 8 || text.contains(" tools ("), "{max}: {text}");
        if max >= 1000 {
            assert_eq!(shown, 8, "{max}: {text}");
        }
        if max >= 2000 && !text.contains("Does") {
            assert!(max - text.len() < 45, "{max}: {} bytes unused", max - text.len());
        }
    }
    let text = write(&items, &active, 4096).text;
    assert!(text.contains("_1\n") && text.contains(" more tools\n"), "{text}");
}

#[test]
fn active_names_stay_even_if_the_toolboxes_cannot_be_counted() {
    let items: Vec<_> = (0..200)
        .map(|n| {
            let mut item = item(PrimitiveKind::Tool, &format!("box{n}_tool"), "", n == 150);
            item.at.toolbox =
                mcp_workbench_names::ToolboxName::new(format!("a-long-name-of-a-box-{n}"));
            item
        })
        .collect();
    let text = write(&items, &ActivePrimitives::default(), 400).text;
    assert!(text.len() <= 400 && text.contains("total: 200 tools (1 active)"), "{text}");
    assert!(text.contains("\n* box150_tool\n"), "{text}");
}

#[test]
fn missing_servers_are_named_once_within_limits() {
    let many: Vec<_> = (0..200).map(|n| format!("server-{n}")).collect();
    let catalog = CatalogText {
        head: "Head",
        items: &[],
        active: &ActivePrimitives::default(),
        missing: &many,
    };
    let text = catalog.write(1000).text;
    assert!(text.len() < 500 && text.contains("server-9,") && text.contains(" more."), "{text}");
    let missing = ["t", "t", "t", "solo"].map(str::to_owned);
    let catalog = CatalogText {
        head: "Head",
        items: &[],
        active: &ActivePrimitives::default(),
        missing: &missing,
    };
    assert!(catalog.write(1000).text.contains("Not available now: t, solo."));
    let missing = ["pjpd".to_owned()];
    let catalog = CatalogText {
        head: "Head",
        items: &[],
        active: &ActivePrimitives::default(),
        missing: &missing,
    };
    assert!(catalog.write(1000).text.contains("Not available now: pjpd."));
}
