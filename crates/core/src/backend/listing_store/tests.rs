use std::fs::File;
use std::future::{pending, ready};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use pretty_assertions::assert_eq;
use tempfile::TempDir;
use tokio::task::yield_now;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::*;
use crate::backend::{BackendSpec, ClientCapabilities, Era};
use crate::catalog::{Definition, Listing, ToolDefinition};
use mcp_workbench_settings::StdioLaunch;
use mcp_workbench_wire::json::RawJson;

const PROTOCOL: Protocol = Protocol::Auto;

fn reach(command: &str) -> ServerTransport {
    ServerTransport::Stdio(StdioLaunch {
        command: command.to_owned(),
        args: vec!["--password=hunter2".to_owned()],
        env: [("API_TOKEN".to_owned(), "hunter2".to_owned())].into(),
        cwd: PathBuf::from("/"),
        inherit_env: false,
        secret_refs: [].into(),
        withheld: [].into(),
        has_own_folder: false,
        sandbox: None,
        starts_directly: true,
    })
}

fn spec(command: &str) -> BackendSpec {
    BackendSpec {
        label: "box/calc".to_owned(),
        server: "calc".to_owned(),
        reach: reach(command),
        environment: Arc::default(),
        protocol: PROTOCOL,
        capabilities: ClientCapabilities::NONE,
        startup_timeout: Duration::from_secs(30),
        idle_timeout: None,
        max_message_bytes: 1 << 20,
        quotas: mcp_workbench_settings::ServerLimits::default(),
        reviewed: None,
    }
}

fn record(tool: &str) -> ListingRecord {
    let tool = format!(r#"{{"name":"{tool}","inputSchema":{{}}}}"#);
    let raw: RawJson = serde_json::from_str(&tool).unwrap();
    let (tools, _) = ToolDefinition::read_all([raw]);
    let listing = Arc::new(Listing { tools, ..Listing::default() });
    ListingRecord { server: "calc".to_owned(), era: Era::Legacy, is_old: false, listing }
}

fn tools(store: &ListingStore, command: &str) -> Option<Vec<String>> {
    let (record, _) = store.load(&reach(command), PROTOCOL)?;
    Some(record.listing.tools.iter().map(|tool| tool.name.clone()).collect())
}

struct Bench {
    dir: TempDir,
    store: ListingStore,
}

impl Bench {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let store = ListingStore::new(&dir.path().join("cache"));
        Self { dir, store }
    }

    fn other(&self) -> ListingStore {
        ListingStore::new(&self.dir.path().join("cache"))
    }

    fn keep(&self, command: &str, tool: &str) {
        self.store.save(&reach(command), PROTOCOL, &record(tool)).unwrap();
    }

    fn listing(&self) -> PathBuf {
        let files = self.store.files().unwrap();
        let mut listings = files.iter().filter(|file| matches!(kind(file), Kind::Listing(_)));
        listings.next().unwrap().path()
    }
}

#[test]
fn saved_listing_is_visible_to_other_processes() {
    let bench = Bench::new();
    assert_eq!(tools(&bench.store, "a"), None);
    assert!(!bench.store.folder().exists(), "lookups write nothing");
    bench.keep("a", "add");
    bench.keep("b", "sub");
    for store in [&bench.store, &bench.other()] {
        assert_eq!(tools(store, "a").unwrap(), ["add"]);
        assert_eq!(tools(store, "b").unwrap(), ["sub"]);
        assert_eq!(tools(store, "c"), None);
        assert_eq!(store.look_up(&reach("a"), Protocol::Modern).map(|entry| entry.bytes), None);
    }
    bench.keep("a", "multiply");
    assert_eq!(tools(&bench.other(), "a").unwrap(), ["multiply"]);
    assert_eq!(bench.store.entries().unwrap().len(), 2);
}

#[test]
fn unchanged_listing_only_updates_its_timestamp() {
    let bench = Bench::new();
    bench.keep("a", "add");
    let path = bench.listing();
    let long_ago = SystemTime::UNIX_EPOCH;
    let file = File::options().append(true).open(&path).unwrap();
    file.set_modified(long_ago).unwrap();
    bench.keep("a", "add");
    let since = bench.store.look_up(&reach("a"), PROTOCOL).unwrap().since;
    assert!(since > long_ago);
    assert_eq!(
        file.metadata().unwrap().modified().unwrap(),
        since,
        "the file is touched, not rewritten"
    );
}

#[test]
#[cfg(unix)]
fn files_are_private_to_their_owner() {
    use std::os::unix::fs::PermissionsExt;

    let bench = Bench::new();
    bench.keep("a", "add");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(bench.store.folder()), 0o700);
    for file in bench.store.files().unwrap() {
        assert_eq!(mode(&file.path()), 0o600, "{}", file.path().display());
    }
    fs::set_permissions(bench.store.folder(), fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(tools(&bench.other(), "a"), None, "a folder writable by others is not trusted");
}

// invariant: store-is-a-cache
#[test]
fn files_and_file_names_contain_no_secrets() {
    let bench = Bench::new();
    bench.keep("a", "add");
    let files = bench.store.files().unwrap();
    assert_eq!(files.len(), 2);
    for file in files {
        let name = file.file_name().to_string_lossy().into_owned();
        let text = String::from_utf8_lossy(&fs::read(file.path()).unwrap()).into_owned();
        for secret in ["hunter2", "password", "API_TOKEN"] {
            assert!(!name.contains(secret) && !text.contains(secret), "{name}: {text}");
        }
    }
}

#[test]
fn file_names_depend_on_the_key() {
    let (one, other) = (Bench::new(), Bench::new());
    one.keep("a", "add");
    other.keep("a", "add");
    assert_ne!(one.listing().file_name(), other.listing().file_name());
}

#[test]
fn damaged_record_is_ignored_and_overwritten() {
    let bench = Bench::new();
    bench.keep("a", "add");
    let good = fs::read(bench.listing()).unwrap();
    let mut other_version = good.clone();
    let version = good.iter().position(|byte| *byte == b' ').unwrap() + 1;
    other_version[version] = b'9';
    for bad in [b"".as_slice(), b"\0\0\0", &good[..good.len() / 2], &other_version] {
        fs::write(bench.listing(), bad).unwrap();
        assert_eq!(tools(&bench.other(), "a"), None);
        assert!(bench.store.entries().unwrap()[0].record.is_err());
        bench.keep("a", "add");
        assert_eq!(tools(&bench.other(), "a").unwrap(), ["add"]);
    }
}

#[test]
fn oversized_listing_is_not_read() {
    let bench = Bench::new();
    bench.keep("a", "add");
    File::options().append(true).open(bench.listing()).unwrap().set_len(MAX_FILE + 1).unwrap();
    let entry = bench.store.look_up(&reach("a"), PROTOCOL).unwrap();
    assert_eq!(entry.record.unwrap_err(), ListingRecordError::TooLarge);
}

#[test]
fn oversized_listing_removes_the_previous_one() {
    let bench = Bench::new();
    bench.keep("a", "add");
    bench.keep("a", &"x".repeat(usize::try_from(MAX_FILE).unwrap()));
    assert_eq!(tools(&bench.store, "a"), None);
    assert_eq!(bench.store.entries().unwrap().len(), 0);
}

#[test]
fn directory_at_a_listing_path_is_ignored() {
    let bench = Bench::new();
    bench.keep("a", "add");
    let path = bench.listing();
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(tools(&bench.other(), "a"), None);
    assert!(bench.store.save(&reach("a"), PROTOCOL, &record("add")).is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn fifo_at_a_listing_path_does_not_block() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    let bench = Bench::new();
    bench.keep("a", "add");
    let listing = bench.listing();
    fs::remove_file(&listing).unwrap();
    mknodat(CWD, &listing, FileType::Fifo, Mode::RWXU, 0).unwrap();
    assert_eq!(tools(&bench.other(), "a"), None);
    bench.keep("a", "add");
    assert_eq!(tools(&bench.other(), "a").unwrap(), ["add"]);
}

#[test]
fn damaged_key_is_replaced() {
    let bench = Bench::new();
    bench.keep("a", "add");
    fs::write(bench.store.folder().join(KEY), "short").unwrap();
    let other = bench.other();
    assert_eq!(tools(&other, "a"), None);
    other.save(&reach("a"), PROTOCOL, &record("add")).unwrap();
    assert_eq!(tools(&bench.other(), "a").unwrap(), ["add"]);
}

// invariant: store-is-a-cache
#[cfg(unix)]
#[test]
fn planted_links_and_pipes_are_replaced_unopened() {
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, Mode, mkfifoat};

    let cache = TempDir::new().unwrap();
    let victim = cache.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let link = |path: &Path| symlink(&victim, path).unwrap();
    let pipe = |path: &Path| mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
    let plants: [&dyn Fn(&Path); 2] = [&link, &pipe];
    for plant in plants {
        let store = ListingStore::new(cache.path());
        store.save(&reach("calc"), PROTOCOL, &record("one")).unwrap();
        let entry = store.entries().unwrap().remove(0).fingerprint;
        for path in [store.path(&entry), store.folder.join(KEY)] {
            fs::remove_file(&path).unwrap();
            plant(&path);
            let store = ListingStore::new(cache.path());
            assert_eq!(tools(&store, "calc"), None, "unusable, and nothing waits for it");
            store.save(&reach("calc"), PROTOCOL, &record("one")).unwrap();
            assert!(path.symlink_metadata().unwrap().is_file());
            assert_eq!(tools(&ListingStore::new(cache.path()), "calc"), Some(vec!["one".into()]));
        }
        store.clear().unwrap();
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
fn key_of_another_process_is_adopted() {
    let bench = Bench::new();
    bench.keep("a", "add");
    bench.other().clear().unwrap();
    let other = bench.other();
    other.save(&reach("b"), PROTOCOL, &record("sub")).unwrap();
    bench.keep("a", "add");
    assert_eq!(tools(&bench.other(), "a").unwrap(), ["add"]);
    assert_eq!(tools(&bench.other(), "b").unwrap(), ["sub"]);
}

#[test]
fn clear_leaves_foreign_files() {
    let bench = Bench::new();
    assert_eq!(bench.store.clear().unwrap(), 0);
    bench.keep("a", "add");
    bench.keep("b", "add");
    let folder = bench.store.folder().to_owned();
    fs::write(folder.join(".unfinished-1"), "").unwrap();
    fs::write(folder.join("mine.listing"), "").unwrap();
    assert_eq!(bench.store.clear().unwrap(), 2);
    let left: Vec<_> = bench.store.files().unwrap().iter().map(DirEntry::file_name).collect();
    assert_eq!(left, ["mine.listing"]);
    fs::remove_file(folder.join("mine.listing")).unwrap();
    assert_eq!(bench.store.clear().unwrap(), 0);
    assert!(!folder.exists());
    bench.keep("a", "add");
    assert_eq!(tools(&bench.store, "a").unwrap(), ["add"]);
}

#[test]
fn oldest_listings_are_evicted_at_max_files() {
    let bench = Bench::new();
    bench.keep("kept", "add");
    let template = fs::read(bench.listing()).unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
    for index in 0..MAX_FILES {
        let path = bench.store.folder().join(format!("{index:032x}.{EXTENSION}"));
        fs::write(&path, &template).unwrap();
        let age = old + Duration::from_secs(index as u64);
        File::options().append(true).open(path).unwrap().set_modified(age).unwrap();
    }
    let left_behind = bench.store.folder().join(".unfinished-x");
    let file = File::create(&left_behind).unwrap();
    file.set_modified(old).unwrap();
    // Another process, whose count of files is out of date.
    bench.other().save(&reach("new"), PROTOCOL, &record("add")).unwrap();
    assert_eq!(bench.store.entries().unwrap().len(), MAX_FILES);
    for oldest in [0, 1] {
        let path = bench.store.folder().join(format!("{oldest:032x}.{EXTENSION}"));
        assert!(!path.exists());
    }
    assert!(tools(&bench.store, "kept").is_some() && tools(&bench.store, "new").is_some());
    assert!(!left_behind.exists());
}

#[test]
fn protocol_hint_is_looked_up_once() {
    let bench = Bench::new();
    let way = |store: &ListingStore| {
        store.cached_hint(&reach("a"), PROTOCOL).map(|it| it.found.map(|found| found.era))
    };
    assert_eq!(way(&bench.store), None);
    assert!(bench.store.load(&reach("a"), PROTOCOL).is_none());
    assert_eq!(way(&bench.store), Some(None), "the miss is cached");
    bench.keep("a", "add");
    assert_eq!(way(&bench.store), Some(Some(Era::Legacy)));
    let other = bench.other();
    assert!(other.load(&reach("a"), PROTOCOL).is_some());
    assert_eq!(way(&other), Some(Some(Era::Legacy)));
    assert!(
        other.cached_hint(&reach("a"), Protocol::Modern).is_none(),
        "hints are stored per protocol"
    );
}

#[tokio::test(start_paused = true)]
async fn save_waits_for_starts_and_newer_listing_replaces_it() {
    let bench = Bench::new();
    let spec = Arc::new(spec("a"));
    let worker = |tasks: &TaskTracker| {
        Arc::new(ListingStoreWorker::new(
            Arc::new(bench.other()),
            tasks.clone(),
            &CancellationToken::new(),
        ))
    };
    let kept = || tools(&bench.other(), "a");
    let (tasks, outgoing, began) = (TaskTracker::new(), PendingSave::default(), Instant::now());
    let first = worker(&tasks);
    first.schedule_save(&spec, &outgoing, record("older"), pending());
    first.schedule_save(&spec, &outgoing, record("newer"), pending());
    yield_now().await;
    assert_eq!((kept(), tasks.len()), (None, 1));
    first.flush().await;
    assert_eq!(kept().unwrap(), ["newer"], "flush ends the delay");
    assert_eq!(began.elapsed(), Duration::ZERO);

    let second = worker(&tasks);
    tasks.close();
    second.schedule_save(&spec, &outgoing, record("quiet"), ready(()));
    tasks.wait().await;
    assert_eq!((kept().unwrap(), began.elapsed()), (vec!["quiet".to_owned()], Duration::ZERO));
    second.schedule_save(&spec, &outgoing, record("late"), pending());
    tasks.wait().await;
    assert_eq!(kept().unwrap(), ["late"]);
    assert_eq!(began.elapsed().as_millis(), 250, "the delay is bounded");
}

#[test]
fn one_writer_never_exceeds_max_files() {
    let bench = Bench::new();
    for index in 0..MAX_FILES + 3 {
        bench.keep(&index.to_string(), "add");
    }
    assert_eq!(bench.store.files().unwrap().len(), MAX_FILES + 1, "listings and the key");
    let newest = (MAX_FILES + 2).to_string();
    assert_eq!(tools(&bench.store, &newest).unwrap(), ["add"]);
}

#[test]
fn concurrent_reader_sees_complete_listings() {
    let bench = Bench::new();
    bench.keep("a", "add");
    thread::scope(|scope| {
        for tool in ["add", "a-tool-with-a-much-longer-name"] {
            let writer = bench.other();
            scope.spawn(move || {
                for round in 0..200 {
                    let record = record(&format!("{tool}{round}"));
                    writer.save(&reach("a"), PROTOCOL, &record).unwrap();
                }
            });
        }
        let reader = bench.other();
        scope.spawn(move || {
            for _ in 0..500 {
                assert!(tools(&reader, "a").is_some());
            }
        });
    });
    assert_eq!(bench.store.files().unwrap().len(), 2, "no temporary file remains");
}
