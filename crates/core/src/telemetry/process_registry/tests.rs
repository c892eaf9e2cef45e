//! Content and lifetime of the files of a process.

use std::time::SystemTime;

use pretty_assertions::assert_eq;

use super::*;
use crate::catalog::Listing;
use crate::telemetry::event::{Event, ServerContext, ServerStopReason, SessionContext};
use crate::telemetry::event_bus::EventListener;
use crate::telemetry::process_registry::logs::{LogReader, list_logs};
use crate::telemetry::process_registry::publisher::ProcessPublisher;
use mcp_workbench_names::AgentName;

const TIMEOUT: Duration = Duration::from_secs(20);

fn server(run: u64, label: &str) -> ServerContext {
    ServerContext {
        run,
        toolbox: String::new(),
        server: String::new(),
        label: label.to_owned(),
        pid: None,
        was_ready: false,
        has_run_before: false,
    }
}

fn wait_told(cache: &Path, is_it: impl Fn(&ProcessRecord) -> bool) -> ProcessRecord {
    let end = std::time::Instant::now() + TIMEOUT;
    loop {
        if let Some(record) =
            read_processes(cache).unwrap().into_iter().find(|record| is_it(record))
        {
            return record;
        }
        assert!(std::time::Instant::now() < end, "it is not told: {:?}", read_processes(cache));
        // Another thread writes the file, and nothing signals that it has.
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn publishes_agents_and_servers_until_they_end() {
    let cache = tempfile::tempdir().unwrap();
    let files = ProcessFiles::new(cache.path(), "a1");
    let publisher = ProcessPublisher::start(
        &files,
        ProcessRecord { at: "stdio".to_owned(), ..ProcessRecord::default() },
    )
    .unwrap();
    let listing = Listing::default();
    let server = ServerContext { pid: Some(7), ..server(1, "box/one") };
    publisher.on_event(Event::ServerStarting(&server));
    publisher.on_event(Event::ServerStarted(&server, &listing));
    let failing = self::server(2, "box/two");
    publisher.on_event(Event::ServerStarting(&failing));
    publisher.on_event(Event::ServerFailed(&failing, "no such program"));
    let agent = SessionContext {
        agent: Some(AgentName::new("ann")),
        session: 3,
        ..SessionContext::default()
    };
    publisher.on_event(Event::SessionOpened(&agent));
    publisher.on_event(Event::ClientIdentified(&agent, "claude-code", "2.1"));
    let told_now = wait_told(cache.path(), |record| {
        record.servers.len() == 2 && record.agents.iter().any(|agent| agent.client.is_some())
    });
    assert_eq!((told_now.pid, told_now.at.as_str()), (std::process::id(), "stdio"));
    assert_eq!(told_now.agents[0].client.as_deref(), Some("claude-code"));
    let servers: Vec<_> =
        told_now.servers.iter().map(|s| (s.server.as_str(), s.state, s.pid)).collect();
    assert_eq!(
        servers,
        [("box/one", ServerRunState::Running, Some(7)), ("box/two", ServerRunState::Failed, None)]
    );
    let again = self::server(4, "box/two");
    publisher.on_event(Event::ServerStarting(&again));
    publisher.on_event(Event::ServerStopped(&server, ServerStopReason::Idle));
    publisher.on_event(Event::SessionClosed(&agent));
    let told_now =
        wait_told(cache.path(), |record| record.servers.len() == 1 && record.agents.is_empty());
    assert_eq!((told_now.servers[0].state, told_now.agents.len()), (ServerRunState::Starting, 0));
    publisher.flush(TIMEOUT);
    assert_eq!(read_processes(cache.path()).unwrap().len(), 0);
    publisher.on_event(Event::ServerStopped(&again, ServerStopReason::Shutdown));
    assert_eq!(fs::read_dir(ProcessFiles::folder(cache.path())).unwrap().count(), 0);
}

#[test]
fn skips_orphaned_records_and_removes_them_after_a_day() {
    let cache = tempfile::tempdir().unwrap();
    let folder = ProcessFiles::folder(cache.path());
    make_folder(&folder).unwrap();
    let left = folder.join("workbench.1-dead.open");
    fs::write(&left, serde_json::to_vec(&ProcessRecord::default()).unwrap()).unwrap();
    assert_eq!(read_processes(cache.path()).unwrap().len(), 0);
    let files = ProcessFiles::new(cache.path(), "a1");
    files.prepare_folder().unwrap();
    assert!(left.exists(), "recent orphans remain");
    let long_ago = SystemTime::now() - 2 * LEFT;
    File::options().append(true).open(&left).unwrap().set_modified(long_ago).unwrap();
    files.prepare_folder().unwrap();
    assert!(!left.exists());
}

#[test]
fn logs_are_rotated_and_removed_with_their_process() {
    let cache = tempfile::tempdir().unwrap();
    let files = ProcessFiles::new(cache.path(), "a1");
    let mut log = files.log();
    let line = vec![b'x'; 300_000];
    for _ in 0..9 {
        log.write_all(&line).unwrap();
    }
    let found = list_logs(cache.path()).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].pid, std::process::id());
    let before = rotated_path(&found[0].path, KEPT_LOGS);
    let sizes = [&found[0].path, &before].map(|path| fs::metadata(path).unwrap().len());
    assert!(sizes.iter().all(|size| *size <= MAX_LOG), "{sizes:?}");
    files.remove_log();
    log.write_all(&line).unwrap();
    assert_eq!(fs::read_dir(ProcessFiles::folder(cache.path())).unwrap().count(), 0);
}

#[test]
fn log_reader_follows_rotations() {
    let cache = tempfile::tempdir().unwrap();
    let files = ProcessFiles::new(cache.path(), "a1");
    let mut log = files.log();
    let mut line = |text: &str| {
        let long = "x".repeat(400_000);
        log.write_all(format!("{text} {long}\n").as_bytes()).unwrap();
    };
    line("one");
    let found = list_logs(cache.path()).unwrap();
    let mut reader = LogReader::new(&found[0]);
    let mut read = || -> Vec<String> {
        let lines = reader.lines().into_iter();
        lines
            .map(|line| String::from_utf8_lossy(&line[..5]).trim_end_matches([' ', 'x']).to_owned())
            .collect()
    };
    assert_eq!(read(), ["one"]);
    assert_eq!(read(), [""; 0]);
    line("two");
    line("three");
    line("four");
    assert_eq!(read(), ["two", "three", "four"]);
    line("five");
    assert_eq!(read(), ["five"]);
    let lines = LogReader::new(&found[0]).lines();
    assert_eq!(lines.len(), 3, "only one rotated file remains");
}

#[cfg(unix)]
#[test]
fn files_are_private_to_their_owner() {
    use std::os::unix::fs::PermissionsExt;

    let cache = tempfile::tempdir().unwrap();
    let files = ProcessFiles::new(cache.path(), "a1");
    let publisher = ProcessPublisher::start(&files, ProcessRecord::default()).unwrap();
    files.log().write_all(b"x\n").unwrap();
    wait_told(cache.path(), |_| true);
    let folder = ProcessFiles::folder(cache.path());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let modes = fs::read_dir(&folder).unwrap().map(|entry| mode(&entry.unwrap().path()));
    assert_eq!(modes.collect::<Vec<_>>(), [0o600, 0o600]);
    publisher.flush(TIMEOUT);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(
        ProcessPublisher::start(&files, ProcessRecord::default()).is_err(),
        "other users can write to the folder"
    );
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn record_gives_a_process_only_if_that_process_wrote_it() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("a.sock");
    let own = std::process::id();
    let record = |pid, ticks, socket: Option<&Path>| ProcessRecord {
        pid,
        ticks,
        socket: socket.map(Path::to_owned),
        ..ProcessRecord::default()
    };
    let is_proven = async |record: ProcessRecord| record.process().await.is_ok();
    let started = start_time(own);
    assert!(is_proven(record(own, started, None)).await);
    assert!(!is_proven(record(own, None, None)).await, "no proof");
    assert!(!is_proven(record(own, start_time(1), None)).await, "a reused PID");
    assert!(!is_proven(record(1, started, None)).await, "another process");
    for pid in [0, u32::MAX, i32::MAX.unsigned_abs()] {
        assert!(!is_proven(record(pid, None, None)).await, "{pid}");
    }
    // The socket of an ended process proves nothing.
    assert!(is_proven(record(own, started, Some(&socket))).await);
    assert!(!is_proven(record(own, None, Some(&socket))).await);
    let listener = mcp_workbench_os::LocalListener::bind(&socket).unwrap();
    // Records of earlier versions have no start time.
    assert!(is_proven(record(own, None, Some(&socket))).await);
    let other = record(1, start_time(1), Some(&socket));
    assert!(!is_proven(other).await, "the socket belongs to another process");
    drop(listener);
}

#[cfg(unix)]
#[test]
fn planted_files_are_no_records() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::{CWD, Mode, mkfifoat};

    let cache = tempfile::tempdir().unwrap();
    let folder = ProcessFiles::folder(cache.path());
    make_folder(&folder).unwrap();
    let lock = |name: &str| {
        let mut file = File::create(folder.join(name)).unwrap();
        file.write_all(&serde_json::to_vec(&ProcessRecord::default()).unwrap()).unwrap();
        file.lock().unwrap();
        file
    };
    let own = lock("workbench.1-own.open");
    let shared = lock("workbench.1-shared.open");
    shared.set_permissions(fs::Permissions::from_mode(0o666)).unwrap();
    symlink(folder.join("workbench.1-own.open"), folder.join("workbench.1-link.open")).unwrap();
    for pipe in ["workbench.1-pipe.open", "workbench.1-pipe.log"] {
        mkfifoat(CWD, folder.join(pipe), Mode::RUSR | Mode::WUSR).unwrap();
    }
    assert_eq!(read_processes(cache.path()).unwrap().len(), 1);
    assert_eq!(list_logs(cache.path()).unwrap(), []);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let error = read_processes(cache.path()).unwrap_err().to_string();
    assert!(error.starts_with("other users can write to"), "{error}");
    assert!(list_logs(cache.path()).is_err());
    drop((own, shared));
}
