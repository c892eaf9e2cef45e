//! Tests of locating and reading the configuration file.

use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;

use crate::env::{EnvSource, ProcessEnv};
use crate::secret_values::NoSecrets;
use crate::tests::env;
use crate::{ConfigOrigin, LoadError, load, locate};

fn located(explicit: Option<&str>, pairs: &[(&str, &str)]) -> (String, String, ConfigOrigin) {
    let location = locate(explicit.map(PathBuf::from), &env(pairs), Path::new("/here"));
    (
        location.display_path.display().to_string(),
        location.path.display().to_string(),
        location.chosen_by,
    )
}

fn expected(shown: &str, path: &str, by: ConfigOrigin) -> (String, String, ConfigOrigin) {
    (shown.to_owned(), path.to_owned(), by)
}

#[test]
fn precedence_is_flag_then_env_then_default() {
    let variable = [("WORKBENCH_CONFIG", "v.json"), ("HOME", "/home/me")];
    assert_eq!(
        located(Some("f.json"), &variable),
        expected("f.json", "/here/f.json", ConfigOrigin::Flag)
    );
    assert_eq!(located(None, &variable), expected("v.json", "/here/v.json", ConfigOrigin::EnvVar));
    let default =
        expected("./workbench-config.json", "/here/workbench-config.json", ConfigOrigin::Default);
    assert_eq!(located(None, &[]), default);
    assert_eq!(located(None, &[("WORKBENCH_CONFIG", "")]), default);
}

#[test]
fn tilde_in_workbench_config_is_expanded() {
    let pairs = [("WORKBENCH_CONFIG", "~/w.json"), ("HOME", "/home/me")];
    assert_eq!(
        located(None, &pairs),
        expected("~/w.json", "/home/me/w.json", ConfigOrigin::EnvVar)
    );
    assert_eq!(located(Some("/w.json"), &pairs).1, "/w.json");
}

fn failure(bytes: Option<&[u8]>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("w.json");
    if let Some(bytes) = bytes {
        std::fs::write(&file, bytes).unwrap();
    }
    let location = locate(Some("w.json".into()), &env(&[]), folder.path());
    let shown = load(&location, &env(&[]), &NoSecrets).unwrap_err().to_text();
    shown.replace(&folder.path().display().to_string(), "<folder>")
}

#[test]
fn missing_file_error_has_hints() {
    assert_eq!(
        failure(None),
        "no configuration at `w.json` (from `--config`, full path `<folder>/w.json`)\n\n\
         hint: run `mcp-workbench setup` to create one from the servers of your clients\n\
         hint: run `mcp-workbench demo` for a sample session without one\n\
         hint: use `--config PATH` or `WORKBENCH_CONFIG` for another file"
    );
}

#[test]
fn non_utf8_file_is_an_error() {
    assert_eq!(
        failure(Some(b"{\n\"a\": \"\xff\"}")),
        "failed to read `w.json`: invalid UTF-8 in line 2\n\nhint: save the file as UTF-8"
    );
    assert_eq!(
        failure(Some(b"\xff\xfe{\0}\0")),
        "failed to read `w.json`: the file is UTF-16\n\nhint: save it as UTF-8"
    );
}

#[test]
fn load_error_display_has_no_error_prefix() {
    assert!(failure(Some(b"{}")).starts_with("1 error in `w.json`\n\n  w.json:1:1: "));
}

#[test]
fn directory_without_config_yaml_is_invalid() {
    let folder = tempfile::tempdir().unwrap();
    let location = locate(Some(folder.path().to_owned()), &env(&[]), Path::new("/"));
    let error = load(&location, &env(&[]), &NoSecrets).unwrap_err();
    assert!(matches!(error, LoadError::Invalid { .. }), "{error}");
    assert!(error.to_string().contains("_config.yaml: file not found"), "{error}");
}

#[test]
fn servers_start_in_the_directory_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("w.json"), r#"{"mcpServers": {"a": {"command": "./a"}}}"#)
        .unwrap();
    let location = locate(Some("./w.json".into()), &env(&[]), folder.path());
    let loaded = load(&location, &env(&[]), &NoSecrets).unwrap();
    let mcp_workbench_settings::Launch::Stdio(launch) =
        &loaded.config.toolboxes[0].servers[0].launch
    else {
        panic!("{loaded:?}");
    };
    assert_eq!(launch.cwd, folder.path());
    assert_eq!(Path::new(&launch.command), folder.path().join("a"));
    assert_eq!(loaded.file, "./w.json");
}

#[test]
fn invalid_variable_names_read_as_unset() {
    for name in ["", "=", "A=B", "\0", "A\0B"] {
        assert_eq!(ProcessEnv.get(name), None);
    }
}

#[test]
fn yaml_outside_a_catalog_is_rejected() {
    let shown = crate::parse("a: 1", Path::new("x.yaml"), Path::new("/"), &env(&[]));
    let shown = shown.unwrap_err().to_string();
    assert!(shown.contains("x.yaml:1:1: YAML is supported only in catalog folders"), "{shown}");
}
