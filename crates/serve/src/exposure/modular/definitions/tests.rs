use pretty_assertions::assert_eq;

use super::*;
use mcp_workbench_names::{ServerName, ToolboxName};
use mcp_workbench_settings::{Launch, ServerConfig};

fn group_of(name: String, description: String) -> ToolboxConfig {
    let launch = Launch::Unsupported { reason: String::new(), hint: String::new() };
    let server = ServerConfig::new(ServerName::new("srv"), launch);
    ToolboxConfig {
        namespace: name.clone(),
        name: ToolboxName::new(name),
        description,
        servers: vec![server],
    }
}

fn groups(count: usize, words: usize) -> Vec<ToolboxConfig> {
    let description = vec!["described"; words].join(" ");
    (0..count).map(|n| group_of(format!("group-{n}"), description.clone())).collect()
}

fn described(available: &[ToolboxConfig], unavailable: &[(ToolboxConfig, String)]) -> String {
    let available: Vec<_> = available.iter().collect();
    let unavailable: Vec<_> =
        unavailable.iter().map(|(group, reason)| (group, reason.clone())).collect();
    description(&available, &unavailable)
}

#[test]
fn short_descriptions_are_complete() {
    let text = described(&groups(2, 3), &[]);
    let groups = "Available groups:\n- group-0: described described described\n- group-1: \
                  described described described";
    assert_eq!(text, format!("{PURPOSE}\n\n{groups}"));
    assert_eq!(described(&[], &[]), format!("{PURPOSE}\n\nAvailable groups:"));
}

#[test]
fn groups_step_down_to_names_within_the_byte_limit() {
    for (count, words) in [(1, 1000), (10, 30), (20, 50), (40, 3), (200, 10), (5000, 1)] {
        let available = groups(count, words);
        let failed: Vec<_> =
            groups(count, words).into_iter().map(|g| (g, "no ".repeat(500))).collect();
        for unavailable in [&failed[..0], &failed[..]] {
            let text = described(&available, unavailable);
            assert!(text.len() <= MAX_DESCRIPTION, "{count} {words}: {}", text.len());
            assert!(text.contains("group-0"), "{text}");
            assert_eq!(text.contains(UNAVAILABLE), !unavailable.is_empty());
        }
    }
    let text = described(&groups(5000, 1), &[]);
    assert!(text.ends_with(" more, see `group`"), "{text}");
}

#[test]
fn the_reason_is_one_short_line() {
    let failure = |reason: &str| FailedServer {
        server: ServerName::new("srv"),
        reason: reason.to_owned(),
        hint: String::new(),
        wants_sign_in: false,
    };
    let tail =
        "exited during startup with exit code 3; last lines of stderr:\nError: no\n    at main";
    assert_eq!(reason(&[failure(tail)]), "exited during startup with exit code 3");
    assert_eq!(reason(&[failure("one."), failure("two")]), "one; two");
    let text = described(&[], &[(group_of("db".to_owned(), "Data".to_owned()), "gone".to_owned())]);
    assert!(text.ends_with(&format!("{UNAVAILABLE}\n- db: Data (Error: gone){AGAIN}")), "{text}");
}
