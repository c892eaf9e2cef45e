//! Tests with a folder `home` that has the folder `work`, the working directory of the servers.

use std::os::unix::fs::symlink;

use pretty_assertions::assert_eq;
use tempfile::TempDir;

use super::*;
use mcp_workbench_settings::{Confinement, Container};

struct Bench {
    home: PathBuf,
    registry: GrantRegistry,
    _folder: TempDir,
}

impl Bench {
    fn new(files: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let home = folder.path().canonicalize().unwrap();
        fs::create_dir(home.join("work")).unwrap();
        for file in files {
            fs::create_dir_all(home.join(file).parent().unwrap()).unwrap();
            fs::write(home.join(file), "").unwrap();
        }
        Self { home, registry: GrantRegistry::default(), _folder: folder }
    }

    fn launch(&self, args: &[&str], sandbox: Sandbox) -> StdioLaunch {
        StdioLaunch {
            command: "server".to_owned(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: [].into(),
            cwd: self.home.join("work"),
            inherit_env: false,
            secret_refs: [].into(),
            withheld: [].into(),
            has_own_folder: false,
            sandbox: Some(sandbox),
            starts_directly: true,
        }
    }

    fn sandboxed(&self, args: &[&str]) -> StdioLaunch {
        self.launch(args, Sandbox::Process(Confinement::default()))
    }

    fn contained(&self, args: &[&str]) -> StdioLaunch {
        let container = Container {
            image: "image".to_owned(),
            engine: None,
            read: [].into(),
            write: [].into(),
            has_network: true,
        };
        self.launch(args, Sandbox::Container(container.into()))
    }

    /// Returns the readable and the writable targets below the home.
    fn access(&self, launch: &StdioLaunch) -> Result<[Vec<String>; 2], String> {
        let environment = [("PATH", "/usr/bin".into()), ("HOME", self.home.clone().into())];
        let environment =
            ChildEnvironment::new(environment.map(|(name, value)| (name.into(), value)));
        let grants = self.registry.grants(launch, &environment);
        let grants = grants.map_err(|error| format!("{} {}", error.reason, error.hint))?;
        Ok([false, true].map(|is_writable| {
            let targets = grants
                .iter()
                .filter(|grant| grant.is_writable == is_writable)
                .filter_map(|grant| grant.target.strip_prefix(&self.home).ok());
            targets.map(|path| path.display().to_string()).collect()
        }))
    }

    fn access_of_new_process(&mut self, launch: &StdioLaunch) -> Result<[Vec<String>; 2], String> {
        self.registry = GrantRegistry::default();
        self.access(launch)
    }

    /// Replaces a file or folder by a link, as a server could.
    fn plant(&self, path: &str, target: &str) {
        let path = self.home.join(path);
        if path.is_dir() {
            fs::remove_dir_all(&path).unwrap();
        } else if path.exists() {
            fs::remove_file(&path).unwrap();
        }
        symlink(self.home.join(target), path).unwrap();
    }
}

fn texts<const R: usize, const W: usize>(read: [&str; R], write: [&str; W]) -> [Vec<String>; 2] {
    [read.map(str::to_owned).to_vec(), write.map(str::to_owned).to_vec()]
}

#[test]
fn arguments_and_configured_paths_are_granted() {
    let bench = Bench::new(&["data/x", "notes.db", "secret", "work/y", "extra/e"]);
    let confinement = Confinement {
        read: [bench.home.join("extra"), bench.home.join("gone")].into(),
        ..Confinement::default()
    };
    let mut launch = bench.launch(&["../data", "--db=../notes.db"], Sandbox::Process(confinement));
    assert_eq!(bench.access(&launch), Ok(texts(["extra", "notes.db"], ["data"])));
    launch.has_own_folder = true;
    assert_eq!(bench.access(&launch), Ok(texts(["extra", "notes.db"], ["data", "work"])));
}

#[test]
fn variables_grant_only_reading() {
    let bench = Bench::new(&["data/x", "lib/y", "work/z"]);
    for mut launch in [bench.sandboxed(&["../data"]), bench.contained(&["../data"])] {
        let [data, lib] = ["data", "lib"].map(|name| bench.home.join(name));
        let value = format!("{}:{}", data.display(), lib.display());
        launch.env = [("DATA_DIR".to_owned(), value)].into();
        assert_eq!(bench.access(&launch), Ok(texts(["lib"], ["data"])));
        assert_eq!(read_only_variables(&launch), BTreeSet::from(["DATA_DIR"]));
        launch.env = [("DATA_DIR".to_owned(), data.display().to_string())].into();
        assert_eq!(read_only_variables(&launch), BTreeSet::new(), "writable by an argument");
        launch.env = [("PYTHONPATH".to_owned(), lib.display().to_string())].into();
        assert_eq!(read_only_variables(&launch), BTreeSet::new(), "programs only read these");
    }
}

#[test]
fn package_arguments_grant_nothing() {
    let bench = Bench::new(&["work/@scope/name/x", "work/owner/name/x"]);
    for package in ["@scope/name", "owner/name"] {
        let mut launch = bench.sandboxed(&["-y", package]);
        launch.command = "npx".to_owned();
        assert_eq!(bench.access(&launch), Ok(texts([], [])), "{package}");
    }
}

#[test]
fn planted_link_does_not_change_the_grants_of_a_restart() {
    let bench = Bench::new(&["work/data/x", "private/key"]);
    for mut launch in [bench.sandboxed(&["./data", "./later"]), bench.contained(&["./data"])] {
        launch.has_own_folder = true;
        assert_eq!(bench.access(&launch), Ok(texts([], ["work"])));
        bench.plant("work/data", "private");
        let _ = fs::remove_file(bench.home.join("work/later"));
        bench.plant("work/later", "private");
        assert_eq!(bench.access(&launch), Ok(texts([], ["work"])));
        fs::remove_file(bench.home.join("work/data")).unwrap();
        fs::create_dir(bench.home.join("work/data")).unwrap();
    }
}

#[test]
fn planted_link_stops_the_start_in_a_new_process() {
    for is_container in [false, true] {
        let mut bench = Bench::new(&["work/data/x", "private/key"]);
        let args = ["./data"];
        let mut launch = if is_container { bench.contained(&args) } else { bench.sandboxed(&args) };
        launch.has_own_folder = true;
        bench.plant("work/data", "private");
        let error = bench.access_of_new_process(&launch).unwrap_err();
        let link = bench.home.join("work/data");
        assert!(error.contains(&format!("through the link `{}`", link.display())), "{error}");
        let key = if is_container { "`container.write`" } else { "`sandbox.write`" };
        assert!(error.contains(key), "{error}");
    }
}

#[test]
fn link_planted_by_another_server_stops_the_start() {
    let bench = Bench::new(&["work/x", "private/key"]);
    bench.plant("work/shared", "private");
    let writer = bench.sandboxed(&["."]);
    let reader = bench.sandboxed(&["./shared"]);
    bench.registry.learn_from([&writer, &reader].into_iter());
    assert!(bench.access(&reader).is_err());
    // The server itself has a folder and no path through the link.
    assert_eq!(bench.access(&writer), Ok(texts([], ["work"])));
}

#[test]
fn links_in_configured_paths_and_programs_count_too() {
    let bench = Bench::new(&["private/key", "private/bin/tool"]);
    bench.plant("work/link", "private");
    let mut launches = ["read", "write", "command", "variable", "cwd"].map(|kind| {
        let path = bench.home.join("work/link");
        let mut confinement = Confinement::default();
        match kind {
            "read" => confinement.read.insert(path.clone()),
            "write" => confinement.write.insert(path.clone()),
            _ => false,
        };
        let mut launch = bench.launch(&["."], Sandbox::Process(confinement));
        match kind {
            "command" => launch.command = "./link/bin/tool".to_owned(),
            "variable" => drop(launch.env.insert("DATA".to_owned(), path.display().to_string())),
            "cwd" => (launch.cwd, launch.has_own_folder) = (path, true),
            _ => {}
        }
        (kind, launch)
    });
    // The folder is in reach of the other servers.
    let all: Vec<_> = launches.iter().map(|(_, launch)| launch.clone()).collect();
    bench.registry.learn_from(all.iter());
    for (kind, launch) in &mut launches {
        assert!(bench.access(launch).is_err(), "{kind}");
    }
}

#[test]
fn links_out_of_reach_are_followed() {
    let bench = Bench::new(&["disk/data/x", "disk/more/y"]);
    bench.plant("data", "disk/data");
    let launch = bench.sandboxed(&["../data"]);
    assert_eq!(bench.access(&launch), Ok(texts([], ["disk/data"])));
    let launch = bench.contained(&["../data"]);
    assert_eq!(bench.access(&launch), Ok(texts([], ["data"])));
}

#[test]
fn link_to_granted_files_is_harmless() {
    let bench = Bench::new(&["tools/bin/python"]);
    bench.plant("work/python", "tools/bin/python");
    let mut launch = bench.sandboxed(&[]);
    (launch.has_own_folder, launch.command) = (true, "./python".to_owned());
    let error = bench.access(&launch).unwrap_err();
    let needed = bench.home.join("tools");
    assert!(error.contains(&format!("add its target `{}`", needed.display())), "{error}");
    let confinement = Confinement { read: [needed].into(), ..Confinement::default() };
    launch.sandbox = Some(Sandbox::Process(confinement));
    assert_eq!(bench.access(&launch), Ok(texts(["tools"], ["work"])));
    symlink("/usr/bin/env", bench.home.join("work/env")).unwrap();
    launch.command = "./env".to_owned();
    assert!(bench.access(&launch).is_ok(), "system files");
}

#[test]
fn linked_program_folder_in_reach_is_left_out() {
    let bench = Bench::new(&["private/bin/x"]);
    bench.plant("work/bin", "private/bin");
    let mut launch = bench.sandboxed(&[]);
    launch.has_own_folder = true;
    let path = bench.home.join("work/bin");
    launch.env = [("PATH".to_owned(), format!("{}:/usr/bin", path.display()))].into();
    let error = bench.access(&launch).unwrap_err();
    assert!(error.contains("`PATH` leads through"), "{error}");
    let environment = ChildEnvironment::new([("PATH".into(), path.into())]);
    launch.env = [].into();
    let grants = bench.registry.grants(&launch, &environment).unwrap();
    assert!(!grants.iter().any(|grant| grant.target.starts_with(bench.home.join("private"))));
}

#[test]
fn folder_replaced_by_the_user_is_granted_and_by_a_server_refused() {
    let bench = Bench::new(&["data/x", "work/x", "outer/inner/x"]);
    let [user, writer, reader] =
        [["../data"], ["../outer"], ["../outer/inner"]].map(|args| bench.sandboxed(&args));
    bench.registry.learn_from([&user, &writer, &reader].into_iter());
    let before = texts([], ["data"]);
    assert_eq!(bench.access(&user), Ok(before.clone()));
    fs::remove_dir_all(bench.home.join("data")).unwrap();
    assert_eq!(bench.access(&user), Ok(texts([], [])), "missing");
    fs::create_dir(bench.home.join("data")).unwrap();
    assert_eq!(bench.access(&user), Ok(before));
    bench.plant("data", "work");
    assert!(bench.access(&user).is_err(), "a link since then");

    assert_eq!(bench.access(&reader), Ok(texts([], ["outer/inner"])));
    let inner = bench.home.join("outer/inner");
    fs::rename(&inner, bench.home.join("outer/old")).unwrap();
    fs::create_dir(&inner).unwrap();
    assert!(bench.access(&reader).unwrap_err().contains("was replaced"));
    fs::remove_dir(&inner).unwrap();
    bench.plant("outer/inner", "work");
    assert!(bench.access(&reader).unwrap_err().contains("was replaced"));
}

#[test]
fn missing_path_is_not_granted_later() {
    let bench = Bench::new(&[]);
    let launch = bench.sandboxed(&["../data"]);
    assert_eq!(bench.access(&launch), Ok(texts([], [])));
    fs::create_dir(bench.home.join("data")).unwrap();
    assert_eq!(bench.access(&launch), Ok(texts([], [])));
}

#[test]
fn mounts_of_a_container_have_the_paths_as_written() {
    let bench = Bench::new(&["app/package.json", "app/server.js", "app/lib/x", "data, and more/x"]);
    let mut launch = bench.contained(&["./server.js", "--data=../data, and more", "/usr/bin/env"]);
    launch.cwd = bench.home.join("app");
    assert_eq!(bench.access(&launch), Ok(texts(["app"], ["data, and more"])));
}

#[test]
fn folder_that_is_missing_at_first_counts_with_its_real_path() {
    let bench = Bench::new(&["disk/x", "private/key"]);
    bench.plant("drive", "disk");
    let cell = Confinement { write: [bench.home.join("drive/new")].into(), ..Default::default() };
    let writer = bench.launch(&[], Sandbox::Process(cell));
    let reader = bench.sandboxed(&["../disk/new/link"]);
    bench.registry.learn_from([&writer, &reader].into_iter());
    fs::create_dir(bench.home.join("disk/new")).unwrap();
    bench.plant("disk/new/link", "private");
    assert!(bench.access(&reader).unwrap_err().contains("leads through the link"));
}

#[test]
fn program_in_reach_of_a_server_is_replaceable() {
    let bench = Bench::new(&["work/bin/docker", "bin/docker"]);
    bench.registry.learn_from([&bench.sandboxed(&["."])].into_iter());
    bench.plant("tools", "work/bin");
    for (program, expected) in [
        ("work/bin/docker", true),
        ("tools/docker", true),
        ("work/new", true),
        ("bin/docker", false),
        ("new", false),
    ] {
        assert_eq!(bench.registry.is_replaceable(&bench.home.join(program)), expected, "{program}");
    }
}

#[test]
fn circular_links_lead_nowhere() {
    let bench = Bench::new(&[]);
    bench.plant("one", "other");
    bench.plant("other", "one");
    assert!(follow(&bench.home.join("one")).is_none());
    bench.plant("work/up", "work");
    let found = follow(&bench.home.join("work/up/./up/../work/up")).unwrap();
    assert_eq!(found.path, bench.home.join("work"));
    assert_eq!(found.links, vec![bench.home.join("work/up"); 3]);
}
