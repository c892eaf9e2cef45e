use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::thread;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{self, Runtime};

use super::*;

fn program(name: &str, args: &[&str]) -> CommandSpec {
    let path = ("PATH".into(), DEFAULT_PATH.into());
    CommandSpec {
        name: name.into(),
        args: args.iter().map(Into::into).collect(),
        env: BTreeMap::from([path]),
        folder: "/".into(),
        has_input: false,
    }
}

fn shell(script: &str) -> CommandSpec {
    program("sh", &["-c", script])
}

fn runtime() -> Runtime {
    runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn printed(program: &CommandSpec) -> String {
    runtime().block_on(async {
        let mut child = Child::spawn(program).unwrap();
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).await.unwrap();
        assert!(child.wait().await.unwrap().success(), "{text}");
        text
    })
}

fn failure(program: &CommandSpec) -> ErrorKind {
    let runtime = runtime();
    let _inside = runtime.enter();
    Child::spawn(program).unwrap_err().kind()
}

fn script(folder: &Path, name: &str, text: &str) {
    let file = folder.join(name);
    fs::create_dir_all(folder).unwrap();
    fs::write(&file, text).unwrap();
    fs::set_permissions(file, Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn child_gets_exactly_its_arguments_env_and_folder() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let mut program = program(
        "sh",
        &["-c", "echo $0 $#; printf '<%s>' \"$@\"; pwd; env", "zero", "", "two words", "ö"],
    );
    program.env.insert("NAME".into(), "a=b\nc".into());
    program.folder.clone_from(&folder);
    let printed = printed(&program);
    let start = format!("zero 3\n<><two words><ö>{}\n", folder.display());
    let env = printed.strip_prefix(&start).unwrap_or_else(|| panic!("{printed}"));
    let mut lines: Vec<_> = env.lines().filter(|line| !line.starts_with("_=")).collect();
    lines.sort_unstable();
    let folder = format!("PWD={}", folder.display());
    assert_eq!(lines, ["NAME=a=b", "PATH=/bin:/usr/bin", &folder, "c"]);
}

#[test]
fn child_has_piped_streams_and_an_exit_code() {
    let mut program = shell("cat; echo oops >&2; exit 7");
    program.has_input = true;
    runtime().block_on(async {
        let mut child = Child::spawn(&program).unwrap();
        assert!(child.id().is_some());
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"hello").await.unwrap();
        drop(stdin);
        let (mut said, mut errors) = (String::new(), String::new());
        child.stdout.take().unwrap().read_to_string(&mut said).await.unwrap();
        child.stderr.take().unwrap().read_to_string(&mut errors).await.unwrap();
        assert_eq!((said.as_str(), errors.as_str()), ("hello", "oops\n"));
        assert_eq!(child.wait().await.unwrap().code(), Some(7));
        assert_eq!(child.wait().await.unwrap().code(), Some(7), "`wait` is repeatable");
        assert_eq!(child.id(), None);
        child.kill();
    });
    assert_eq!(printed(&shell("cat")), "", "stdin is empty without input");
}

#[test]
fn programs_are_looked_up_in_path() {
    let folder = TempDir::new().unwrap();
    let [hidden, plain, first, second] =
        ["hidden", "plain", "first", "second"].map(|name| folder.path().join(name));
    script(&hidden, "it", "#!/bin/sh\necho hidden");
    fs::set_permissions(hidden.join("it"), Permissions::from_mode(0o644)).unwrap();
    fs::write(&plain, "a file where a folder is named").unwrap();
    script(&first, "it", "#!/bin/sh\necho first $0");
    script(&second, "it", "#!/bin/sh\necho second");
    script(&second, "plain", "echo \"$0 of a shell: $1\"");
    let looked_for = |name: &str, folders: &str| {
        let mut program = program(name, &["argument"]);
        program.env.insert("PATH".into(), folders.into());
        program.folder = folder.path().into();
        program
    };
    let all = format!("{}:{}:first:second", hidden.display(), plain.display());
    assert_eq!(printed(&looked_for("it", &all)), "first first/it\n");
    assert_eq!(printed(&looked_for("it", &second.to_string_lossy())), "second\n");
    assert_eq!(printed(&looked_for("first/it", "/nowhere")), "first first/it\n");
    let plain = format!("{} of a shell: argument\n", second.join("plain").display());
    assert_eq!(printed(&looked_for("plain", &second.to_string_lossy())), plain);
    let mut in_its_folder = looked_for("it", "/nowhere:");
    in_its_folder.folder = second;
    assert_eq!(printed(&in_its_folder), "second\n");
    let mut without_path = looked_for("echo", "");
    without_path.env.clear();
    assert_eq!(printed(&without_path), "argument\n");

    assert_eq!(failure(&looked_for("it", "/nowhere")), ErrorKind::NotFound);
    assert_eq!(failure(&looked_for("", &all)), ErrorKind::NotFound);
    assert_eq!(failure(&looked_for("./it", &all)), ErrorKind::NotFound);
    let hidden = format!("{}:/nowhere", hidden.display());
    assert_eq!(failure(&looked_for("it", &hidden)), ErrorKind::PermissionDenied);
    let mut nowhere = looked_for("it", &all);
    nowhere.folder = "/nowhere".into();
    assert_eq!(failure(&nowhere), ErrorKind::NotFound);
}

#[test]
fn nul_bytes_and_oversized_arguments_are_rejected() {
    assert_eq!(failure(&program("e\0cho", &[])), ErrorKind::InvalidInput);
    assert_eq!(failure(&program("echo", &["\0"])), ErrorKind::InvalidInput);
    let mut variable = program("echo", &[]);
    variable.env.insert("A".into(), "\0".into());
    assert_eq!(failure(&variable), ErrorKind::InvalidInput);
    let long = "x".repeat(8 << 20);
    assert_eq!(failure(&program("echo", &[&long])), ErrorKind::ArgumentListTooLong);
}

#[test]
fn killed_child_reports_sigkill() {
    runtime().block_on(async {
        let mut child = Child::spawn(&program("sleep", &["60"])).unwrap();
        child.kill();
        assert_eq!(child.wait().await.unwrap().signal(), Some(9));
    });
}

#[cfg(target_os = "linux")]
mod on_linux {
    use std::collections::BTreeSet;

    use tokio::signal::unix::{SignalKind, signal};

    use super::*;

    /// Returns a signal mask from `/proc/<pid>/status`.
    fn signals(status: &str, name: &str) -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    }

    #[test]
    fn child_has_fresh_signals_no_inherited_files_and_a_group() {
        let runtime = runtime();
        // Install a handler, so that the child has one to reset.
        let _inside = runtime.enter();
        let _handled = signal(SignalKind::user_defined1()).unwrap();
        let ours = || fs::read_to_string("/proc/thread-self/status").unwrap();
        let before = ours();
        let status = printed(&program("cat", &["/proc/self/status"]));
        let pipe = 1 << 12;
        assert_ne!(signals(&before, "SigIgn:") & pipe, 0, "every Rust program ignores SIGPIPE");
        assert_eq!(signals(&status, "SigIgn:"), signals(&before, "SigIgn:") & !pipe);
        assert_eq!(signals(&status, "SigBlk:"), 0);
        assert_eq!(
            signals(&ours(), "SigBlk:"),
            signals(&before, "SigBlk:"),
            "ours are as they were"
        );

        let open = |text: &str| -> BTreeSet<u32> {
            text.split_whitespace().map(|it| it.parse().unwrap()).collect()
        };
        let files = fs::read_dir("/proc/self/fd").unwrap();
        let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let ours = open(&files.collect::<Vec<_>>().join(" "));
        let theirs = open(&printed(&program("ls", &["/proc/self/fd"])));
        let inherited: BTreeSet<_> = theirs.difference(&ours).collect();
        assert!(inherited.is_empty(), "inherited {inherited:?}, in addition to {ours:?}");

        let group = printed(&program("cat", &["/proc/self/stat"]));
        let fields: Vec<_> = group.split(' ').collect();
        assert_eq!(fields[0], fields[4], "the child leads its process group");
    }

    #[test]
    fn descriptors_without_close_on_exec_stay_closed_in_the_child() {
        use rustix::io::{FdFlags, fcntl_setfd};

        let inherited = tempfile::NamedTempFile::new().unwrap();
        fcntl_setfd(&inherited, FdFlags::empty()).unwrap();
        let files = printed(&program("ls", &["-l", "/proc/self/fd"]));
        assert!(files.contains("pipe:"), "{files}");
        assert!(!files.contains(inherited.path().to_str().unwrap()), "{files}");
    }

    #[test]
    fn exited_child_keeps_its_id_until_it_is_dropped() {
        runtime().block_on(async {
            let mut child = Child::spawn(&program("true", &[])).unwrap();
            let id = child.id().unwrap();
            assert!(child.wait().await.unwrap().success());
            let process = format!("/proc/{id}");
            assert!(Path::new(&process).exists(), "the id is reserved");
            drop(child);
            assert!(!Path::new(&process).exists(), "the child is reaped");
        });
    }

    #[test]
    fn threads_can_spawn_concurrently() {
        thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for round in 0..25 {
                        let word = format!("{thread} {round}");
                        assert_eq!(printed(&program("echo", &[&word])), format!("{word}\n"));
                        assert_eq!(failure(&program("no-such-program", &[])), ErrorKind::NotFound);
                    }
                });
            }
        });
    }

    #[test]
    fn dropped_child_is_killed_and_reaped() {
        let runtime = runtime();
        let _inside = runtime.enter();
        let child = Child::spawn(&program("sleep", &["60"])).unwrap();
        let id = child.id().unwrap();
        drop(child);
        while Path::new(&format!("/proc/{id}")).exists() {
            thread::yield_now();
        }
    }

    #[test]
    fn child_is_killed_when_its_spawning_thread_exits() {
        let runtime = runtime();
        let start = || {
            let _inside = runtime.enter();
            Child::spawn(&program("sleep", &["60"])).unwrap()
        };
        let mut child = thread::scope(|scope| scope.spawn(start).join().unwrap());
        let status = runtime.block_on(child.wait()).unwrap();
        assert_eq!(status.signal(), Some(9));
    }
}
