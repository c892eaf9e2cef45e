use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use pretty_assertions::assert_eq;

use super::*;

fn environment() -> Vec<(OsString, OsString)> {
    vec![("PATH".into(), "/bin:/usr/bin".into()), ("GIVEN".into(), "given".into())]
}

fn run_in(folder: &Path, scripts: &[&str], max: u64) -> Vec<Result<String, String>> {
    let environment = environment();
    let words = |script: &&str| ["sh", "-c", script].map(str::to_owned);
    let words: Vec<_> = scripts.iter().map(words).collect();
    let commands =
        words.iter().map(|words| CaptureCommand { words, folder, environment: &environment });
    let all = capture_all(&commands.collect::<Vec<_>>(), max).into_iter();
    all.map(|one| one.map(|bytes| String::from_utf8(bytes).unwrap()).map_err(|e| e.reason))
        .collect()
}

fn run(script: &str) -> Result<String, String> {
    run_in(Path::new("/"), &[script], 100).remove(0)
}

#[test]
fn command_gets_the_environment_and_no_input() {
    assert_eq!(run("echo \"$GIVEN\"; pwd; cat"), Ok("given\n/\n".to_owned()));
}

#[test]
fn failure_quotes_stderr_and_never_stdout() {
    let failed = run("echo s3cret; echo first >&2; echo 'not \x1b[1munlocked' >&2; exit 3");
    let failed = failed.unwrap_err();
    assert!(failed.starts_with("`sh` failed with exit code 3: first; not "), "{failed}");
    assert!(!failed.contains("s3cret") && !failed.contains('\x1b'), "{failed}");
    let failed = run("yes said | head -c 100000 >&2; exit 1").unwrap_err();
    assert!(failed.len() < 500, "{failed}");
}

#[test]
fn command_reads_its_input_and_times_out() {
    let environment = environment();
    let ask = |script: &str, input: &[u8]| {
        let words = ["sh", "-c", script].map(str::to_owned);
        let command =
            CaptureCommand { words: &words, folder: Path::new("/"), environment: &environment };
        capture_with_input(&command, input, 1_000_000, Duration::from_millis(500))
    };
    let much = vec![b'x'; 500_000];
    assert_eq!(ask("cat", &much).unwrap().stdout, much);
    let answer = ask("echo locked >&2; exit 1", &much).unwrap();
    assert!(!answer.is_success && answer.stdout.is_empty());
    assert_eq!(answer.said, "locked");
    let failure = ask("cat; exec sleep 60", b"s3cret").map(drop).unwrap_err();
    assert!(failure.reason.starts_with("`sh` timed out after"), "{}", failure.reason);
}

#[test]
fn excess_output_kills_the_command() {
    let began = Instant::now();
    assert_eq!(run("exec yes"), Err("`sh` printed more than 100 bytes".to_owned()));
    assert!(began.elapsed() < TIMEOUT);
}

#[test]
fn leftover_child_does_not_block_the_capture_and_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo value; { sleep 60; } & echo $! > left";
    assert_eq!(run_in(folder.path(), &[script], 100), [Ok("value\n".to_owned())]);
    let left = fs::read_to_string(folder.path().join("left")).unwrap();
    let process = Path::new("/proc").join(left.trim()).join("cmdline");
    // A zombie has no command line.
    let is_gone = || fs::read(&process).map_or(true, |words| words.is_empty());
    while !is_gone() {
        std::thread::yield_now();
    }
}

#[test]
fn commands_run_concurrently() {
    let folder = tempfile::tempdir().unwrap();
    // Each waits for the other.
    let wait = |mine: &str, other: &str| {
        format!(": > {mine}.is; until [ -e {other}.is ]; do sleep 0.01; done; echo {mine}")
    };
    let (one, two) = (wait("a", "b"), wait("b", "a"));
    let all = run_in(folder.path(), &[&one, &two], 100);
    assert_eq!(all, [Ok("a\n".to_owned()), Ok("b\n".to_owned())]);
}

#[test]
fn missing_program_is_detected_without_a_start() {
    let environment = environment();
    let missing = |program: &str| {
        let words = [program.to_owned()];
        let command =
            CaptureCommand { words: &words, folder: Path::new("/"), environment: &environment };
        let missing = command.missing().map(|failure| failure.reason);
        let run = capture_all(&[command], 10).remove(0).map_err(|failure| failure.reason);
        assert_eq!(missing, run.err().filter(|_| missing.is_some()));
        missing
    };
    assert_eq!(missing("true"), None);
    let reason = "command `no-such-program` not found on PATH".to_owned();
    assert_eq!(missing("no-such-program"), Some(reason));
    assert_eq!(missing("/no/program"), Some("program `/no/program` not found".to_owned()));
    assert_eq!(
        missing("/etc/passwd"),
        Some("permission denied: `/etc/passwd` is not executable".to_owned())
    );
}

#[test]
fn script_without_its_interpreter_names_the_interpreter() {
    let folder = tempfile::tempdir().unwrap();
    let environment = environment();
    let missing = |first_line: &str| {
        let script = folder.path().join("server");
        fs::write(&script, format!("{first_line}\n")).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
        let words = ["./server".to_owned()];
        let command =
            CaptureCommand { words: &words, folder: folder.path(), environment: &environment };
        let missing = command.missing().map(|failure| failure.reason);
        let run = capture_all(&[command], 10).remove(0).map_err(|failure| failure.reason);
        assert_eq!(missing, run.err().filter(|_| missing.is_some()));
        missing
    };
    let reason = "`./server` is a script for `/gone/venv/bin/python3`, which does not exist";
    assert_eq!(missing("#!/gone/venv/bin/python3 -E"), Some(reason.to_owned()));
    assert_eq!(missing("#!/gone/venv/bin/python3"), Some(reason.to_owned()));
    for started in ["#!/bin/sh", "#! /bin/sh -e", "#!sh", "#!", "true"] {
        assert_eq!(missing(started), None, "{started}");
    }
}
