//! Project files.

use std::path::PathBuf;

use pretty_assertions::assert_eq;

use super::*;
use crate::loader::project::ProjectFile;
use mcp_workbench_settings::{DriftPolicy, Launch, Sandbox};

const USER: &str = r#"{"toolboxes": {"box": {"description": "d", "mcpServers": {
    "github": {"command": "x"}, "off": {"command": "x", "disabled": true}}}}}"#;

fn laid_over(user: &str, project: &str) -> Result<LoadedConfig, ConfigReport> {
    let env = env(&[("TOKEN", "secret")]);
    let mut loaded = read(user, &env)?;
    let file = ProjectFile {
        path: PathBuf::from("/project/.mcp-workbench.json"),
        text: Some(project.to_owned()),
        trusted: Some(project.to_owned()),
        is_gone: false,
    };
    loaded.lay_over(&[file], &env)?;
    Ok(loaded)
}

fn messages(project: &str) -> Vec<String> {
    let findings = match laid_over(USER, project) {
        Ok(loaded) => loaded.findings,
        Err(report) => report.findings,
    };
    findings.into_iter().map(|finding| format!("{}: {}", finding.path, finding.message)).collect()
}

#[test]
fn paths_and_variables_are_those_of_the_project() {
    let project = r#"{"mcpServers": {"own": {"command": "./run", "env": {"A": "${TOKEN}"}}}}"#;
    let loaded = laid_over(USER, project).unwrap();
    let own = loaded.config.toolbox("own").unwrap().server("own").unwrap();
    let Launch::Stdio(launch) = &own.launch else { panic!("{own:?}") };
    assert_eq!(launch.command, "/project/run");
    assert_eq!(launch.cwd, Path::new("/project"));
    assert_eq!(launch.env["A"], "secret");
}

#[test]
fn names_of_the_user_are_taken() {
    let project = r#"{
        "toolboxes": {
            "Box": {"description": "d", "mcpServers": {"a": {"command": "y"}}},
            "new": {"description": "d", "mcpServers": {"GitHub": {"command": "y"}, "b": {"command": "y"}}},
            "none": {"description": "d", "mcpServers": {"off": {"command": "y"}}}
        },
        "mcpServers": {"github": {"command": "y"}, "box": {"command": "y"}, "c": {"command": "y"}}
    }"#;
    let loaded = laid_over(USER, project).unwrap();
    let names: Vec<&str> = loaded.config.toolboxes.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["box", "new", "c"]);
    assert_eq!(loaded.config.toolbox("new").unwrap().servers.len(), 1);
    assert_eq!(loaded.findings.len(), 5, "{:?}", loaded.findings);
    assert!(!loaded.has_errors());
}

#[test]
fn only_misspelled_servers_are_reported() {
    let project = r#"{
        "exposedTools": {"slack": ["x"], "githb": ["x"]},
        "allowedServers": ["jira", "github", "gitub"],
        "deniedTools": ["slack:*", "githup:delete", "x"],
        "dangerousTools": ["destructiveHint", "jira:*"]
    }"#;
    let expected = [
        "exposedTools.githb: no server `githb`",
        "allowedServers[2]: no server `gitub`",
        "deniedTools[1]: no server `githup`",
    ];
    assert_eq!(messages(project), expected);
}

#[test]
fn references_to_secrets_are_rejected() {
    for reference in [r#"{"command": ["id"]}"#, r#"{"file": "/etc/passwd"}"#] {
        let project = format!(
            r#"{{"mcpServers": {{"a": {{"command": "y", "env": {{"A": {reference}}}}}}}}}"#
        );
        let found = messages(&project);
        assert!(found[0].contains("expected a string, found an object"), "{found:?}");
    }
}

#[test]
fn settings_of_the_user_apply_to_servers_of_the_project() {
    let user = r#"{"sandbox": "workspace", "onDefinitionChange": "quarantine", "toolboxes": {}}"#;
    let project =
        r#"{"mcpServers": {"a": {"command": "y", "sandbox": "off"}, "b": {"command": "y"}}}"#;
    let loaded = laid_over(user, project).unwrap();
    for (_, server) in loaded.config.servers() {
        let Launch::Stdio(launch) = &server.launch else { panic!("{server:?}") };
        assert_ne!(launch.sandbox, Some(Sandbox::Off));
        assert_eq!(server.drift_policy, Some(DriftPolicy::Quarantine));
    }
    let found = messages(r#"{"mcpServers": {"a": {"command": "y", "sandbox": "workspace"}}}"#);
    assert_eq!(found, [""; 0], "without a default, the project's sandbox applies");
    let warned = loaded.findings.iter().filter(|finding| finding.message.contains("is ignored"));
    assert_eq!(warned.count(), 1, "{:?}", loaded.findings);
}
