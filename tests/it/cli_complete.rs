//! Shell completion and man pages.

use pretty_assertions::assert_eq;
use serde_json::json;

use crate::support::process::run_to_exit;
use crate::support::{TestEnvironment, command, fake};

fn bench() -> TestEnvironment {
    let script = json!({"tools": ["read_file", "write_file", "$(reboot)", "a b"]});
    let bench = TestEnvironment::new()
        .server("dev", "files", fake(script))
        .server("desk", "clock", json!({"command": "mcp-workbench", "args": ["builtin", "clock"]}))
        .set("agentPolicies", json!({"ann": {}, "bob": {}}));
    bench.write_config();
    std::fs::rename(bench.config_path(), bench.path("workbench-config.json")).expect("a file");
    bench
}

fn offered(bench: &TestEnvironment, words: &[&str]) -> Vec<String> {
    let index = words.len().to_string();
    let bench = bench.clone().env("WORKBENCH_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", &index);
    let args = ["--", "mcp-workbench"].into_iter().chain(words.iter().copied());
    let output = bench.run_bare(args);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{output}");
    let words = output.stdout.lines().filter(|word| !word.starts_with('-'));
    words.map(str::to_owned).collect()
}

#[test]
fn completes_names_without_starting_servers() {
    let bench = bench();
    assert!(offered(&bench, &["che"]).contains(&"check".to_owned()));
    assert_eq!(offered(&bench, &["list", ""]), ["dev", "desk"]);
    assert_eq!(offered(&bench, &["call", "de"]), ["dev", "desk"]);
    assert_eq!(offered(&bench, &["call", "dev", ""]), ["files"]);
    assert_eq!(
        offered(&bench, &["call", "dev", "files", ""]),
        [""; 0],
        "no tool list is cached yet"
    );
    assert_eq!(bench.run_bare(["cache", "refresh"]).code, Some(0));
    // Names that a shell would interpret aren't offered.
    assert_eq!(offered(&bench, &["call", "dev", "files", ""]), ["read_file", "write_file"]);
    assert_eq!(offered(&bench, &["call", "dev", "files", "w"]), ["write_file"]);
    assert_eq!(offered(&bench, &["explain", ""]), ["ann", "bob"]);
    assert_eq!(offered(&bench, &["explain", "ann", "f"]), ["files"]);
    assert_eq!(offered(&bench, &["explain", "ann", "dev/files", "r"]), ["read_file"]);
    assert_eq!(offered(&bench, &["remove", "desk/"]), ["desk/clock"]);
    assert_eq!(offered(&bench, &["-c", "nowhere.json", "list", ""]), [""; 0]);
}

#[test]
fn completion_works_in_bash() {
    let bench = bench();
    let script = bench.run_bare(["completions", "bash"]).stdout;
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_mcp-workbench"));
    let folder = program.parent().expect("a folder").display();
    let typed = "COMP_WORDS=(mcp-workbench call de); COMP_CWORD=2; COMP_TYPE=9; \
                 _clap_complete_mcp_workbench mcp-workbench de call; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let bench = bench.file("try.bash", &format!("PATH={folder}:$PATH\n{script}\n{typed}\n"));
    let mut bash = command("bash");
    bash.arg("try.bash").current_dir(bench.dir()).env("HOME", bench.path("home"));
    let output = run_to_exit(bash, "");
    assert_eq!(output.stdout, "dev\ndesk\n", "{output}");
}

#[test]
fn man_has_a_page_per_command() {
    let bench = TestEnvironment::new();
    let page = bench.run_bare(["man"]);
    assert!(page.stdout.contains(".TH mcp-workbench 1"), "{page}");
    assert!(page.stdout.contains("WORKBENCH_CONFIG"), "{page}");
    let written = bench.run_bare(["man", "--dir", "man"]);
    assert_eq!(written.code, Some(0), "{written}");
    for name in ["mcp-workbench", "mcp-workbench-call", "mcp-workbench-policy-diff"] {
        let page = std::fs::read_to_string(bench.path(&format!("man/{name}.1"))).expect("a page");
        assert!(page.contains(&format!(".TH {name} 1")), "{page}");
    }
    assert!(!bench.path("man/mcp-workbench-guard.1").exists());
}
