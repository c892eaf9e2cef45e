use std::collections::BTreeMap;
use std::path::Path;

use pretty_assertions::assert_eq;

use super::*;

fn home() -> BTreeMap<String, String> {
    [("HOME".to_owned(), "/h".to_owned())].into()
}

fn paths(platform: Platform, env: &BTreeMap<String, String>, id: &str) -> Vec<String> {
    let known = known_files(platform, env, Path::new("/p"));
    let own = known.into_iter().filter(|file| file.program.id == id);
    own.map(|file| file.path.display().to_string()).collect()
}

#[test]
fn every_known_path_is_recognized_as_its_client() {
    for platform in [Platform::Linux, Platform::MacOs, Platform::Windows] {
        for file in known_files(platform, &home(), Path::new("/p")) {
            let mut path = file.path.display().to_string();
            if file.kind == FileKind::Folder {
                path.push_str("/x.yaml");
            }
            let found = ClientApp::from_path(&path).map(|program| program.id);
            assert_eq!(found, Some(file.program.id), "{path}");
        }
    }
}

#[test]
fn every_client_has_a_path_per_platform_and_a_unique_id() {
    for platform in [Platform::Linux, Platform::MacOs, Platform::Windows] {
        for program in client_apps() {
            assert_ne!(paths(platform, &home(), program.id), [""; 0], "{}", program.id);
            assert_eq!(ClientApp::from_id(program.id), Some(program));
        }
    }
}

#[test]
fn paths_depend_on_the_platform() {
    let desktop = |platform| paths(platform, &home(), "claude-desktop");
    assert_eq!(desktop(Platform::Linux), ["/h/.config/Claude/claude_desktop_config.json"]);
    assert_eq!(
        desktop(Platform::MacOs),
        ["/h/Library/Application Support/Claude/claude_desktop_config.json"]
    );
    assert_eq!(
        desktop(Platform::Windows),
        ["/h/AppData/Roaming/Claude/claude_desktop_config.json"]
    );
    let goose = |platform| paths(platform, &home(), "goose");
    assert_eq!(goose(Platform::MacOs), ["/h/.config/goose/config.yaml"]);
    assert_eq!(goose(Platform::Windows), ["/h/AppData/Roaming/Block/goose/config/config.yaml"]);
}

#[test]
fn paths_follow_environment_variables() {
    let mut env = home();
    for (name, value) in [
        ("CODEX_HOME", "/codex"),
        ("CLAUDE_CONFIG_DIR", "/claude"),
        ("XDG_CONFIG_HOME", "/config"),
        ("APPDATA", "/roaming"),
        ("LOCALAPPDATA", "/local"),
    ] {
        env.insert(name.to_owned(), value.to_owned());
    }
    let first = |platform, id: &str| paths(platform, &env, id).remove(0);
    assert_eq!(first(Platform::Linux, "codex"), "/codex/config.toml");
    assert_eq!(first(Platform::Linux, "claude-code"), "/claude/.claude.json");
    assert_eq!(first(Platform::Linux, "opencode"), "/config/opencode/opencode.json");
    assert_eq!(first(Platform::Windows, "zed"), "/roaming/Zed/settings.json");
    assert_eq!(
        first(Platform::Windows, "copilot-jetbrains"),
        "/local/github-copilot/intellij/mcp.json"
    );
    let project = paths(Platform::Linux, &env, "claude-code").pop();
    assert_eq!(project.as_deref(), Some("/p/.mcp.json"));
}

#[test]
fn without_a_home_only_project_files_are_known() {
    let known = known_files(Platform::Linux, &BTreeMap::new(), Path::new("/p"));
    assert!(known.iter().all(|file| file.scope == FileScope::Project), "{known:?}");
    assert!(!known.is_empty());
}
