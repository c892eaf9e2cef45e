//! Finding the file and reading it.

use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;

use crate::config::env::{EnvSource, ProcessEnv};
use crate::config::tests::env;
use crate::config::values::Unasked;
use crate::config::{ChosenBy, LoadError, load, locate};

fn located(explicit: Option<&str>, pairs: &[(&str, &str)]) -> (String, String, ChosenBy) {
    let location = locate(explicit.map(PathBuf::from), &env(pairs), Path::new("/here"));
    (location.shown.display().to_string(), location.path.display().to_string(), location.chosen_by)
}

fn expected(shown: &str, path: &str, by: ChosenBy) -> (String, String, ChosenBy) {
    (shown.to_owned(), path.to_owned(), by)
}

#[test]
fn the_flag_goes_before_the_variable_and_that_before_the_default() {
    let variable = [("WORKBENCH_CONFIG", "v.json"), ("HOME", "/home/me")];
    assert_eq!(
        located(Some("f.json"), &variable),
        expected("f.json", "/here/f.json", ChosenBy::Flag)
    );
    assert_eq!(located(None, &variable), expected("v.json", "/here/v.json", ChosenBy::Variable));
    let default =
        expected("./workbench-config.json", "/here/workbench-config.json", ChosenBy::Default);
    assert_eq!(located(None, &[]), default);
    assert_eq!(located(None, &[("WORKBENCH_CONFIG", "")]), default);
}

#[test]
fn a_home_is_expanded_where_no_shell_does_it() {
    let pairs = [("WORKBENCH_CONFIG", "~/w.json"), ("HOME", "/home/me")];
    assert_eq!(located(None, &pairs), expected("~/w.json", "/home/me/w.json", ChosenBy::Variable));
    assert_eq!(located(Some("/w.json"), &pairs).1, "/w.json");
}

fn failure(bytes: Option<&[u8]>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("w.json");
    if let Some(bytes) = bytes {
        std::fs::write(&file, bytes).unwrap();
    }
    let location = locate(Some("w.json".into()), &env(&[]), folder.path());
    let shown = load(&location, &env(&[]), &Unasked).unwrap_err().to_string();
    shown.replace(&folder.path().display().to_string(), "<folder>")
}

#[test]
fn a_missing_file_says_what_to_do() {
    assert_eq!(
        failure(None),
        "no configuration at `w.json`, named by `--config`, in full `<folder>/w.json`\n\n\
         hint: `mcp-workbench setup` makes one from the servers of your clients\n\
         hint: `mcp-workbench demo` shows how it works without one\n\
         hint: `--config PATH` or `WORKBENCH_CONFIG` names another file"
    );
}

#[test]
fn a_file_that_is_not_text_says_so() {
    assert_eq!(
        failure(Some(b"{\n\"a\": \"\xff\"}")),
        "cannot read `w.json`: it is not UTF-8 text, see line 2\n\nhint: save it as UTF-8"
    );
    assert_eq!(
        failure(Some(b"\xff\xfe{\0}\0")),
        "cannot read `w.json`: it is UTF-16 text\n\nhint: save it as UTF-8"
    );
}

#[test]
fn errors_begin_without_the_word() {
    assert!(failure(Some(b"{}")).starts_with("1 problem in `w.json`\n\n  w.json:1:1: "));
}

#[test]
fn a_folder_is_a_catalog_or_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let location = locate(Some(folder.path().to_owned()), &env(&[]), Path::new("/"));
    let error = load(&location, &env(&[]), &Unasked).unwrap_err();
    assert!(matches!(error, LoadError::Invalid { .. }), "{error}");
    assert!(error.to_string().contains("_config.yaml: there is no such file"), "{error}");
}

#[test]
fn the_folder_of_the_file_is_where_servers_start() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("w.json"), r#"{"mcpServers": {"a": {"command": "./a"}}}"#)
        .unwrap();
    let location = locate(Some("./w.json".into()), &env(&[]), folder.path());
    let loaded = load(&location, &env(&[]), &Unasked).unwrap();
    let crate::settings::Launch::Stdio(launch) = &loaded.config.toolboxes[0].servers[0].launch
    else {
        panic!("{loaded:?}");
    };
    assert_eq!(launch.cwd, folder.path());
    assert_eq!(Path::new(&launch.command), folder.path().join("a"));
    assert_eq!(loaded.file, "./w.json");
}

#[test]
fn strange_names_of_variables_are_not_set() {
    for name in ["", "=", "A=B", "\0", "A\0B"] {
        assert_eq!(ProcessEnv.get(name), None);
    }
}

#[test]
fn yaml_alone_is_no_configuration() {
    let shown = crate::config::parse("a: 1", Path::new("x.yaml"), Path::new("/"), &env(&[]));
    let shown = shown.unwrap_err().to_string();
    assert!(shown.contains("x.yaml:1:1: YAML is read in the folder of a catalog"), "{shown}");
}
