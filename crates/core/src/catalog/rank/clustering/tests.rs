use pretty_assertions::assert_eq;

use super::*;
use crate::catalog::Definition;
use mcp_workbench_wire::json::RawJson;

fn tool(name: &str, description: &str) -> ToolDefinition {
    let text = serde_json::json!({ "name": name, "description": description, "inputSchema": {} });
    ToolDefinition::parse(RawJson::encode(&text)).unwrap()
}

/// Parses servers written as `name: tool, tool`.
fn servers(text: &str) -> Vec<(String, Vec<ToolDefinition>)> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let servers = lines.map(|line| {
        let (name, tools) = line.split_once(':').unwrap();
        let tools = tools.split(',').map(str::trim).filter(|name| !name.is_empty());
        let tools = tools.map(|name| tool(name, &name.replace('_', " ")));
        (name.to_owned(), tools.collect())
    });
    servers.collect()
}

fn members(servers: &[(String, Vec<ToolDefinition>)]) -> Vec<ServerProfile<'_>> {
    let members = servers.iter().map(|(name, tools)| ServerProfile {
        name,
        words: &[],
        about: "",
        tools: tools.iter().collect(),
    });
    members.collect()
}

fn described(members: &[ServerProfile<'_>]) -> Vec<String> {
    let clusters = cluster_servers(members).into_iter();
    let mut told: Vec<String> = clusters
        .map(|cluster| {
            let names: Vec<_> = cluster.members.iter().map(|place| members[*place].name).collect();
            format!("{}: {}", cluster.name, names.join(", "))
        })
        .collect();
    told.sort();
    told
}

const TEN: &str = "
    filesystem: read_file, write_file, list_directory, move_file, search_files, edit_file
    git: git_status, git_commit, git_diff, git_log, git_add, git_branch
    github: create_pull_request, get_file_contents, create_issue, list_commits
    playwright: browser_navigate, browser_click, browser_take_screenshot, browser_type
    fetch: fetch
    sqlite: read_query, write_query, list_tables, describe_table
    memory: create_entities, add_observations, search_nodes
    thinking: sequentialthinking
    time: get_current_time, convert_time
    slack: post_message, list_channels, get_thread_replies
";

#[test]
fn servers_of_related_purposes_are_grouped() {
    let servers = servers(TEN);
    assert_eq!(
        described(&members(&servers)),
        [
            "code-and-more: filesystem, git, github, sqlite",
            "communication: slack",
            "memory-and-utilities: memory, thinking, time",
            "web: fetch, playwright",
        ]
    );
}

#[test]
fn the_same_servers_give_the_same_groups_in_any_order() {
    let servers = servers(TEN);
    let forwards = members(&servers);
    let mut backwards = forwards.clone();
    backwards.reverse();
    assert_eq!(described(&backwards), described(&forwards));
}

#[test]
fn groups_stay_within_the_size_limit() {
    let text: Vec<String> = (0..20)
        .map(|index| format!("db-{index:02}: query_{index}, list_tables, describe_table, insert"))
        .collect();
    let servers = servers(&text.join("\n"));
    let members = members(&servers);
    let clusters = cluster_servers(&members);
    assert!(clusters.iter().all(|cluster| cluster.members.len() <= MAX_SERVERS), "{clusters:?}");
    let all: usize = clusters.iter().map(|cluster| cluster.members.len()).sum();
    assert_eq!(all, 20);
    let names: BTreeSet<&str> = clusters.iter().map(|cluster| cluster.name.as_str()).collect();
    assert_eq!(names.len(), clusters.len());
}

#[test]
fn large_server_gets_a_group_of_its_own() {
    let many: Vec<String> = (0..80).map(|index| format!("list_pods_{index}")).collect();
    let text =
        format!("kubernetes: {}\ndocker: start_container\nsentry: list_alerts", many.join(","));
    let servers = servers(&text);
    assert_eq!(
        described(&members(&servers)),
        ["cloud-docker: docker, sentry", "cloud: kubernetes"]
    );
}

#[test]
fn server_without_tools_is_classified_by_name_and_command() {
    for (name, command, purpose_name) in [
        ("pg", "npx -y @modelcontextprotocol/server-postgres", "data"),
        ("github", "docker run ghcr.io/github/github-mcp-server", "code"),
        ("x", "npx @playwright/mcp", "web"),
        ("s", "https://mcp.sentry.dev/mcp", "cloud"),
        ("linear", "https://mcp.linear.app/mcp", "planning"),
    ] {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let member = ServerProfile { name, words: &words, about: "", tools: Vec::new() };
        assert_eq!(purpose(&member).name, purpose_name, "{name}");
    }
}

/// Servers whose names have several meanings, are compounds or plurals, or say little.
#[test]
fn ambiguous_names_are_classified_by_the_tools() {
    let servers = servers(
        "
        vault: list_notes, read_note, append_to_note, search_notes, list_tags
        vault: read_secret, write_secret, list_mounts, create_policy, renew_token
        recipes: find_recipes, get_recipe, plan_meals, make_shopping_list
        mcp-law: search_statutes, get_paragraph, search_court_decisions
        tmux: list_sessions, send_keys, capture_pane, split_window
        ripgrep: search, count_matches, list_file_types
        render: create_service, list_deploys, get_logs, restart_service
        render: render_template, render_mermaid_diagram, export_svg_image
        linear: create_issue, update_issue, list_projects, list_cycles
        matrix: multiply, invert, determinant, calculate_eigenvalues
        matrix: send_message, list_rooms, join_room, get_room_members
        signal: send_message, list_conversations, send_group_message
        library: search_books, get_book, list_loans, read_article
        box: upload_file, list_folder, download_file, share_folder
        square: create_payment, list_invoices, get_customer
        train: start_training, get_loss_metrics, list_checkpoints, deploy_model
        train: search_trains, get_station, list_departures
        word: create_document, add_heading, insert_table, save_document
        light: turn_on, turn_off, set_brightness, list_rooms
        home: read_file, write_file, list_directory, move_file
        match: get_player_stats, list_matches, get_league_table
        outline: create_document, search_documents, list_collections
        neon: run_sql, create_branch, list_databases, describe_table_schema
        shell: run_command, read_output, kill_process
        how-to-cook: getAllRecipes, getRecipesByCategory, recommendMeals, whatToEat
        ",
    );
    let found = members(&servers);
    let found: Vec<_> =
        found.iter().map(|member| format!("{}: {}", member.name, purpose(member).name)).collect();
    assert_eq!(
        found,
        [
            "vault: documents",
            "vault: cloud",
            "recipes: leisure",
            "mcp-law: documents",
            "tmux: code",
            "ripgrep: code",
            "render: cloud",
            "render: media",
            "linear: planning",
            "matrix: utilities",
            "matrix: communication",
            "signal: communication",
            "library: documents",
            "box: files",
            "square: business",
            "train: cloud",
            "train: places",
            "word: documents",
            "light: home",
            "home: files",
            "match: leisure",
            "outline: documents",
            "neon: data",
            "shell: code",
            "how-to-cook: leisure",
        ]
    );
}

#[test]
fn no_servers_give_no_groups() {
    assert_eq!(cluster_servers(&[]), []);
}
