//! Files of a process: their content, and how long they are there.

use std::time::SystemTime;

use pretty_assertions::assert_eq;

use super::*;
use crate::catalog::Listing;
use crate::name::AgentName;
use crate::observe::event::{Event, ServerContext, SessionContext, StoppedFor};
use crate::observe::listeners::Listener;

const PATIENCE: Duration = Duration::from_secs(20);

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

/// Waits until a process is told of as wanted.
fn wait_told(cache: &Path, is_it: impl Fn(&Told) -> bool) -> Told {
    let end = std::time::Instant::now() + PATIENCE;
    loop {
        if let Some(told) = told(cache).unwrap().into_iter().find(|told| is_it(told)) {
            return told;
        }
        assert!(std::time::Instant::now() < end, "it is not told: {:?}", told(cache));
        // No event tells that another thread has written a file.
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_runs_is_told_until_it_ends() {
    let cache = tempfile::tempdir().unwrap();
    let files = Files::new(cache.path(), "a1");
    let board = Board::start(&files, Told { at: "stdio".to_owned(), ..Told::default() }).unwrap();
    let listing = Listing::default();
    let server = ServerContext { pid: Some(7), ..server(1, "box/one") };
    board.hear(Event::ServerStarting(&server));
    board.hear(Event::ServerStarted(&server, &listing));
    let failing = self::server(2, "box/two");
    board.hear(Event::ServerStarting(&failing));
    board.hear(Event::ServerFailed(&failing, "no such program"));
    let agent = SessionContext {
        agent: Some(AgentName::new("ann")),
        session: 3,
        ..SessionContext::default()
    };
    board.hear(Event::SessionOpened(&agent));
    board.hear(Event::SessionIntroduced(&agent, "claude-code"));
    let told_now = wait_told(cache.path(), |told| {
        told.servers.len() == 2 && told.agents.iter().any(|agent| agent.client.is_some())
    });
    assert_eq!((told_now.pid, told_now.at.as_str()), (std::process::id(), "stdio"));
    assert_eq!(told_now.agents[0].client.as_deref(), Some("claude-code"));
    let servers: Vec<_> =
        told_now.servers.iter().map(|s| (s.server.as_str(), s.state, s.pid)).collect();
    assert_eq!(
        servers,
        [("box/one", ToldState::Running, Some(7)), ("box/two", ToldState::Failed, None)]
    );
    let again = self::server(4, "box/two");
    board.hear(Event::ServerStarting(&again));
    board.hear(Event::ServerStopped(&server, StoppedFor::Idle));
    board.hear(Event::SessionClosed(&agent));
    let told_now =
        wait_told(cache.path(), |told| told.servers.len() == 1 && told.agents.is_empty());
    assert_eq!((told_now.servers[0].state, told_now.agents.len()), (ToldState::Starting, 0));
    board.flush(PATIENCE);
    assert_eq!(told(cache.path()).unwrap().len(), 0);
    board.hear(Event::ServerStopped(&again, StoppedFor::Shutdown));
    assert_eq!(fs::read_dir(Files::folder(cache.path())).unwrap().count(), 0);
}

#[test]
fn what_was_left_behind_is_passed_over_and_removed_when_it_is_old() {
    let cache = tempfile::tempdir().unwrap();
    let folder = Files::folder(cache.path());
    make_folder(&folder).unwrap();
    let left = folder.join("workbench.1-dead.open");
    fs::write(&left, serde_json::to_vec(&Told::default()).unwrap()).unwrap();
    assert_eq!(told(cache.path()).unwrap().len(), 0);
    let files = Files::new(cache.path(), "a1");
    files.open().unwrap();
    assert!(left.exists(), "it is not old");
    let long_ago = SystemTime::now() - 2 * LEFT;
    File::options().append(true).open(&left).unwrap().set_modified(long_ago).unwrap();
    files.open().unwrap();
    assert!(!left.exists());
}

#[test]
fn a_log_has_limits_and_goes_with_its_process() {
    let cache = tempfile::tempdir().unwrap();
    let files = Files::new(cache.path(), "a1");
    let mut log = files.log();
    let line = vec![b'x'; 300_000];
    for _ in 0..9 {
        log.write_all(&line).unwrap();
    }
    let found = logs(cache.path()).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].pid, std::process::id());
    let before = aside(&found[0].path, KEPT_LOGS);
    let sizes = [&found[0].path, &before].map(|path| fs::metadata(path).unwrap().len());
    assert!(sizes.iter().all(|size| *size <= MAX_LOG), "{sizes:?}");
    files.remove_log();
    log.write_all(&line).unwrap();
    assert_eq!(fs::read_dir(Files::folder(cache.path())).unwrap().count(), 0);
}

#[test]
fn a_reader_goes_on_where_a_log_was_put_aside() {
    let cache = tempfile::tempdir().unwrap();
    let files = Files::new(cache.path(), "a1");
    let mut log = files.log();
    let mut line = |text: &str| {
        let long = "x".repeat(400_000);
        log.write_all(format!("{text} {long}\n").as_bytes()).unwrap();
    };
    line("one");
    let found = logs(cache.path()).unwrap();
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
    assert_eq!(lines.len(), 3, "what was put aside twice is gone");
}

#[cfg(unix)]
#[test]
fn files_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;

    let cache = tempfile::tempdir().unwrap();
    let files = Files::new(cache.path(), "a1");
    let board = Board::start(&files, Told::default()).unwrap();
    files.log().write_all(b"x\n").unwrap();
    wait_told(cache.path(), |_| true);
    let folder = Files::folder(cache.path());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let modes = fs::read_dir(&folder).unwrap().map(|entry| mode(&entry.unwrap().path()));
    assert_eq!(modes.collect::<Vec<_>>(), [0o600, 0o600]);
    board.flush(PATIENCE);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(Board::start(&files, Told::default()).is_err(), "others could write there");
}
