use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use pretty_assertions::assert_eq;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::backend::direct::records::{DirectRecord, RecordKey};
use crate::backend::installed_package::npm::{contents_digest, npx_folder};
use mcp_workbench_settings::LockedPackage;

type Damage = fn(&Home, &str);
type Prepare = fn(&Home);

/// A home folder with npm's programs and caches.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(TempDir::new().unwrap());
        home.program("node/lib/node_modules/npm/bin/npx-cli.js");
        home.program("node/bin/node");
        home.link("node/bin/npx", "../lib/node_modules/npm/bin/npx-cli.js");
        fs::create_dir_all(home.path("project")).unwrap();
        home
    }

    fn path(&self, at: &str) -> PathBuf {
        self.0.path().join(at)
    }

    fn file(&self, at: &str, text: &str) {
        fs::create_dir_all(self.path(at).parent().unwrap()).unwrap();
        fs::write(self.path(at), text).unwrap();
    }

    fn program(&self, at: &str) {
        self.file(at, "#!/bin/sh\n");
        fs::set_permissions(self.path(at), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn link(&self, at: &str, target: &str) {
        fs::create_dir_all(self.path(at).parent().unwrap()).unwrap();
        symlink(target, self.path(at)).unwrap();
    }

    /// Installs package `b` as `npx` does, and returns the folder relative to the home.
    fn npx(&self, spec: &str, version: &str) -> String {
        let folder = npx_folder(&self.path(".npm"), spec);
        let folder = folder.strip_prefix(self.0.path()).unwrap().to_str().unwrap().to_owned();
        let package = format!("{folder}/node_modules/b");
        let manifest = json!({"name": "b", "version": version, "bin": "cli.js"});
        self.file(&format!("{package}/package.json"), &manifest.to_string());
        self.program(&format!("{package}/cli.js"));
        self.link(&format!("{folder}/node_modules/.bin/b"), "../b/cli.js");
        let requested = json!({"_npx": {"packages": [spec]}});
        self.file(&format!("{folder}/package.json"), &requested.to_string());
        folder
    }

    fn launch(&self, command: &str, args: &str) -> StdioLaunch {
        let args = args.split(' ').map(str::to_owned).collect();
        let mut launch = StdioLaunch::new(command.to_owned(), args, self.path("project"));
        launch.env = BTreeMap::from([
            ("HOME".to_owned(), self.0.path().display().to_string()),
            ("PATH".to_owned(), format!("{}:/usr/bin:/bin", self.path("node/bin").display())),
        ]);
        launch
    }

    fn plan(&self, launch: &StdioLaunch, reviewed: Option<&ReviewedPackage>) -> Planned {
        let environment = Arc::new(ChildEnvironment::new(Vec::<(OsString, OsString)>::new()));
        let records = DirectRecords::new(Some(self.path("records")));
        match plan(launch, &environment, reviewed, &records) {
            Err(failure) => Planned::Refused(failure.reason),
            Ok(plan) => match plan.method {
                StartMethod::OwnProgram => Planned::Other,
                StartMethod::AsWritten(reason) => {
                    assert_eq!(plan.launch, *launch);
                    let home = self.0.path().display().to_string();
                    Planned::AsWritten(reason.replace(&home, "~"))
                }
                StartMethod::Direct(program) => {
                    assert_eq!(plan.launch.command, program.path.display().to_string());
                    Planned::Direct(program.package, plan.launch.args.join(" "))
                }
            },
        }
    }

    fn npx_plan(&self, args: &str) -> Planned {
        self.plan(&self.launch("npx", args), None)
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Planned {
    Other,
    AsWritten(String),
    Direct(String, String),
    Refused(String),
}

fn direct(package: &str, args: &str) -> Planned {
    Planned::Direct(package.to_owned(), args.to_owned())
}

fn as_written(reason: &str) -> Planned {
    Planned::AsWritten(reason.to_owned())
}

#[test]
fn cached_package_starts_directly() {
    let home = Home::new();
    assert_eq!(home.npx_plan("-y b@1.0.0"), as_written("`b@1.0.0` isn't in the cache of `npx`"));
    home.npx("b@1.0.0", "1.0.0");
    assert_eq!(home.npx_plan("-y b@1.0.0 --port 1"), direct("b@1.0.0", "--port 1"));
    assert_eq!(home.npx_plan("-y -p b@1.0.0 b x"), direct("b@1.0.0", "x"));
    assert_eq!(home.npx_plan("-y b"), as_written("`b` isn't in the cache of `npx`"));
    let node = home.launch("node", "server.js");
    assert_eq!(home.plan(&node, None), Planned::Other);
    let mut launch = home.launch("npx", "-y b@1.0.0");
    launch.starts_directly = false;
    assert_eq!(home.plan(&launch, None), as_written("`direct` is `false`"));
    let mut launch = home.launch("npx", "-y b@1.0.0");
    launch.sandbox = Some(Sandbox::Process(mcp_workbench_settings::Confinement::default()));
    let reason = "it runs in a sandbox, which has a cache of its own";
    assert_eq!(home.plan(&launch, None), as_written(reason));
}

#[test]
fn broken_cache_is_left_to_npx() {
    let spec = "b@1.0.0";
    let broken: [(&str, Damage); 7] = [
        ("the cached copy of `b@1.0.0` is incomplete", |home, at| {
            home.file(&format!("{at}/node_modules/b/package.json"), "{");
        }),
        ("version 1.0.1 of `b@1.0.0` is cached", |home, at| {
            home.file(&format!("{at}/node_modules/b/package.json"), r#"{"version": "1.0.1"}"#);
        }),
        ("`b@1.0.0` isn't in the cache of `npx`", |home, at| {
            home.file(&format!("{at}/package.json"), "");
        }),
        ("`npx` is changing its cache", |home, at| {
            home.file(&format!("{at}/concurrency.lock/owner"), "");
        }),
        ("`b` doesn't name its program", |home, at| {
            let manifest = r#"{"version": "1.0.0", "bin": {"../../x": "cli.js"}}"#;
            home.file(&format!("{at}/node_modules/b/package.json"), manifest);
        }),
        ("needs a shell", |home, at| {
            home.file(&format!("{at}/node_modules/b/cli.js"), "#!/bin/sh\r\n");
        }),
        ("leads out of its package", |home, at| {
            home.program("elsewhere");
            let link = format!("{at}/node_modules/.bin/b");
            fs::remove_file(home.path(&link)).unwrap();
            symlink(home.path("elsewhere"), home.path(&link)).unwrap();
        }),
    ];
    for (expected, damage) in broken {
        let home = Home::new();
        let folder = home.npx(spec, "1.0.0");
        damage(&home, &folder);
        let Planned::AsWritten(reason) = home.npx_plan("-y b@1.0.0") else { panic!("{expected}") };
        assert!(reason.ends_with(expected), "{reason}, not {expected}");
    }
}

#[test]
fn settings_and_copies_that_npx_prefers_are_left_to_it() {
    let cases: [(&str, Prepare); 8] = [
        ("`npx` prefers the copy in `~/project/node_modules/b`", |home| {
            home.file("project/node_modules/b/package.json", "{}");
        }),
        ("`npx` prefers the copy in `~/node_modules/.bin/b@1.0.0`", |home| {
            home.program("node_modules/.bin/b@1.0.0");
        }),
        ("`npx` prefers the copy in `~/node/lib/node_modules/b`", |home| {
            home.file("node/lib/node_modules/b/package.json", "{}");
        }),
        ("`npx` prefers the copy in `~/project/package.json`", |home| {
            home.file("project/package.json", r#"{"name": "b"}"#);
        }),
        ("`npx` prefers the copy in `~/project/node_modules/.package-lock.json`", |home| {
            let lock = r#"{"packages": {"node_modules/a/node_modules/b": {}}}"#;
            home.file("project/node_modules/.package-lock.json", lock);
        }),
        ("`~/.npmrc` sets `node-options`", |home| {
            home.file(".npmrc", "; comment\nregistry=https://example.com\nnode-options=--x\n");
        }),
        ("`~/.npmrc` sets `cache` to a relative folder", |home| {
            home.file(".npmrc", "cache=${X}/npm");
        }),
        ("`~/node/bin/npx` isn't npm's `npx`", |home| {
            fs::remove_file(home.path("node/bin/npx")).unwrap();
            home.program("node/bin/npx");
        }),
    ];
    for (expected, prepare) in cases {
        let home = Home::new();
        home.npx("b@1.0.0", "1.0.0");
        prepare(&home);
        assert_eq!(home.npx_plan("-y b@1.0.0"), as_written(expected));
    }
    let home = Home::new();
    home.npx("b@1.0.0", "1.0.0");
    home.file(".npmrc", "//registry.example.com/:_authToken=x\n@a:registry=https://example.com\n");
    assert_eq!(home.npx_plan("b@1.0.0"), direct("b@1.0.0", ""));
    for (name, reason) in [
        ("npm_config_script_shell", "the variable `npm_config_script_shell` sets `script-shell`"),
        ("PREFIX", "the variable `PREFIX` is set"),
    ] {
        let mut launch = home.launch("npx", "b@1.0.0");
        launch.env.insert(name.to_owned(), "/x".to_owned());
        assert_eq!(home.plan(&launch, None), as_written(reason));
    }
}

#[test]
fn newest_recorded_version_starts_if_it_is_complete() {
    let home = Home::new();
    home.npx("b", "1.0.0");
    let records = DirectRecords::new(Some(home.path("records")));
    let key = RecordKey::new(&("npm", "npx", "b", home.path(".npm")));
    assert_eq!(records.load(&key), None);
    records.lock(&key).unwrap().save(Some("2.0.0".to_owned()));
    assert_eq!(home.npx_plan("b"), direct("b@1.0.0", ""));
    let folder = home.npx("b@2.0.0", "2.0.0");
    let later = std::time::SystemTime::now() + std::time::Duration::from_mins(1);
    let manifest = File::open(home.path(&folder).join("package.json")).unwrap();
    manifest.set_modified(later).unwrap();
    assert_eq!(home.npx_plan("b"), direct("b@2.0.0", ""));
    fs::remove_file(home.path(&folder).join("package.json")).unwrap();
    assert_eq!(home.npx_plan("b"), direct("b@1.0.0", ""));
    assert!(!records.load(&key).unwrap().is_due(std::time::SystemTime::now()));
    assert!(DirectRecord::default().is_due(std::time::SystemTime::now()));
}

#[test]
fn one_process_at_a_time_changes_a_record() {
    let home = Home::new();
    let records = DirectRecords::new(Some(home.path("records")));
    let key = RecordKey::new(&"b");
    let first = records.lock(&key);
    assert!(first.is_some() && records.lock(&key).is_none());
    drop(first);
    assert!(records.lock(&key).is_some());
    home.file("records/unreadable.json", "{");
    assert!(DirectRecords::default().lock(&key).is_none());
}

#[test]
fn only_reviewed_files_start() {
    let home = Home::new();
    let folder = home.npx("b@1.0.0", "1.0.0");
    let mut reviewed = ReviewedPackage {
        package: LockedPackage {
            ecosystem: Ecosystem::Npm,
            name: "b".to_owned(),
            version: Some("1.0.0".to_owned()),
            integrity: None,
            contents: contents_digest(&home.path(&folder), "b"),
        },
        is_enforced: true,
        accept_command: "mcp-workbench lock --accept b".to_owned(),
    };
    assert!(reviewed.package.contents.is_some());
    let launch = home.launch("npx", "b@1.0.0");
    let start = |reviewed: &ReviewedPackage| home.plan(&launch, Some(reviewed));
    assert_eq!(start(&reviewed), direct("b@1.0.0", ""));
    // A new file counts, although nothing refers to it.
    home.file(&format!("{folder}/node_modules/b/index.js"), "");
    let refused = "the cached package `b` differs from `workbench.lock`: its files were changed";
    assert_eq!(start(&reviewed), Planned::Refused(refused.to_owned()));
    reviewed.is_enforced = false;
    assert_eq!(start(&reviewed), direct("b@1.0.0", ""));
    reviewed.is_enforced = true;
    reviewed.package.version = Some("0.9.0".to_owned());
    let other = "version 1.0.0 of `b` is cached, the lock has 0.9.0";
    assert_eq!(start(&reviewed), as_written(other));
}

#[test]
fn recorded_environment_of_uv_starts_until_it_is_pruned() {
    let home = Home::new();
    let launch = home.launch("uvx", "b==1.0 serve");
    let unknown = as_written("the environment of `b==1.0` isn't known yet");
    assert_eq!(home.plan(&launch, None), unknown);
    let root = "uv/archive-v0/x";
    home.program(&format!("{root}/bin/b"));
    home.program(&format!("{root}/bin/python"));
    home.file(&format!("{root}/pyvenv.cfg"), "");
    home.file("uv/.lock", "");
    let site = format!("{root}/lib/python3.12/site-packages");
    let info = format!("{site}/b-1.0.dist-info");
    home.file(&format!("{info}/METADATA"), "Name: b\nVersion: 1.0\n\n");
    home.file(&format!("{info}/WHEEL"), "Tag: py3-none-any\n");
    home.file(&format!("{site}/b.py"), "pass\n");
    let sum = "q-qgq1Mg1e-Ow3W-_yLnJcBwZoWYbIgSoYYKeTyRwH4";
    home.file(&format!("{info}/RECORD"), &format!("b.py,sha256={sum},5\n{info}/RECORD,,\n"));
    let environment = Arc::new(ChildEnvironment::new(Vec::<(OsString, OsString)>::new()));
    let command = RunnerCommand::parse(&launch.command, &launch.args).unwrap().unwrap();
    let variables = LaunchVariables { launch: &launch, environment: &environment };
    let records = DirectRecords::new(Some(home.path("records")));
    let (key, _) = uv::find(&command, &variables, &records);
    let found = home.path(root).display().to_string();
    records.lock(&key.unwrap()).unwrap().save(Some(found));
    assert_eq!(home.plan(&launch, None), direct("b@1.0", "serve"));
    // Another Python may mean another environment.
    let mut other = launch.clone();
    other.env.insert("UV_PYTHON".to_owned(), "3.13".to_owned());
    assert_eq!(home.plan(&other, None), unknown);

    let integrity = installed_package::python::distribution(&home.path(root), "b");
    let mut reviewed = ReviewedPackage {
        package: LockedPackage {
            ecosystem: Ecosystem::PyPi,
            name: "b".to_owned(),
            version: Some("1.0".to_owned()),
            integrity: integrity.unwrap().integrity,
            contents: None,
        },
        is_enforced: true,
        accept_command: String::new(),
    };
    let Planned::Refused(reason) = home.plan(&launch, Some(&reviewed)) else { panic!() };
    assert!(reason.ends_with("b.py` was changed"), "{reason}");
    reviewed.package.integrity = Some("record-sha256:00".to_owned());
    let Planned::Refused(reason) = home.plan(&launch, Some(&reviewed)) else { panic!() };
    assert!(reason.ends_with("its digest is another one"), "{reason}");

    let lock = File::open(home.path("uv/.lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(home.plan(&launch, None), as_written("uv is changing its cache"));
    lock.unlock().unwrap();
    fs::remove_dir_all(home.path(root)).unwrap();
    let gone = as_written("the environment of `b` is no longer in the cache");
    assert_eq!(home.plan(&launch, None), gone);
}
