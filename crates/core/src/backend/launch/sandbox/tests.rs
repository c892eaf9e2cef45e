use pretty_assertions::assert_eq;

use super::*;
use crate::settings::Sandbox;

fn launch(folder: &Path, command: &str, args: &[&str]) -> StdioLaunch {
    StdioLaunch {
        command: command.to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: [].into(),
        cwd: folder.to_owned(),
        inherit_env: false,
        secret_refs: [].into(),
        withheld: [].into(),
        has_own_folder: false,
        sandbox: Some(Sandbox::Process(Confinement::default())),
    }
}

fn made(folder: &Path, files: &[&str]) {
    for file in files {
        let file = folder.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "").unwrap();
    }
}

#[test]
fn install_prefix_has_libraries_and_never_a_home() {
    let home = Some(Path::new("/home/me"));
    for (folder, expected) in [
        ("/usr/bin", "/usr"),
        ("/bin", "/bin"),
        ("/home/me/.nvm/versions/node/v20/bin", "/home/me/.nvm/versions/node/v20"),
        ("/home/me/.pyenv/shims", "/home/me/.pyenv"),
        ("/home/me/.local/bin", "/home/me/.local/bin"),
        ("/home/me/.cargo/bin", "/home/me/.cargo/bin"),
        ("/home/me/bin", "/home/me/bin"),
        ("/home/bin", "/home/bin"),
        ("/home/me/tools", "/home/me/tools"),
    ] {
        assert_eq!(install_prefix(Path::new(folder), home), Path::new(expected), "{folder}");
    }
}

#[test]
fn script_grants_its_package_and_node_modules() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    made(
        &folder,
        &[
            "app/node_modules/one/dist/main.js",
            "app/node_modules/one/package.json",
            "app/node_modules/two/package.json",
            "app/secret",
            "own/package.json",
            "own/src/main.js",
            "own/notes",
        ],
    );
    let read = |script: &str| {
        let mut read = BTreeSet::new();
        code(&folder.join(script), Some(&folder), &mut read);
        let shown = read.iter().map(|path| path.strip_prefix(&folder).unwrap().to_owned());
        shown.collect::<Vec<_>>()
    };
    assert_eq!(
        read("app/node_modules/one/dist/main.js"),
        [
            "app/node_modules",
            "app/node_modules/one",
            "app/node_modules/one/dist",
            "app/node_modules/one/dist/main.js",
        ]
        .map(PathBuf::from),
    );
    assert_eq!(read("own/src/main.js"), ["own", "own/src", "own/src/main.js"].map(PathBuf::from));
    assert_eq!(read("nothing"), Vec::<PathBuf>::new());
}

#[test]
fn sandbox_grants_paths_in_arguments_and_not_the_rest_of_the_home() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().canonicalize().unwrap();
    made(&home, &["data/x", "notes.db", "secret", "work/y", "own/z", "extra/e"]);
    let mut launch = launch(&home.join("work"), "server", &["../data", "--db=../notes.db"]);
    let confinement = Confinement {
        read: [home.join("extra"), home.join("gone")].into(),
        has_network: false,
        ..Confinement::default()
    };
    let reached = |launch: &StdioLaunch| {
        let cell = sandbox_rules(launch, &confinement, None, Some(&home), &home.join("own"));
        let inside = |paths: Vec<PathBuf>| -> Vec<String> {
            let paths = paths.iter().filter_map(|path| path.strip_prefix(&home).ok());
            paths.map(|path| path.display().to_string()).collect()
        };
        assert!(!cell.has_network && !cell.has_unix_sockets);
        (inside(cell.read), inside(cell.write))
    };
    let (read, write) = reached(&launch);
    assert_eq!(read, ["extra", "notes.db"]);
    assert_eq!(write, ["data", "own"]);
    launch.has_own_folder = true;
    assert_eq!(reached(&launch).1, ["data", "own", "work"]);
}

#[test]
fn sandbox_homes_are_unique_for_any_server_name() {
    let homes = Path::new("/homes");
    let all: BTreeSet<_> =
        ["a", "a/", "../a", "é", "", "A", "b"].map(|name| home_of(homes, name)).into();
    assert_eq!(all.len(), 7);
    assert!(all.iter().all(|home| home.parent() == Some(homes)));
}

#[test]
fn option_like_program_name_follows_the_separator() {
    let cell =
        SandboxRules { read: vec!["/usr".into()], has_network: true, ..SandboxRules::default() };
    let arguments = arguments(&cell, OsStr::new("--x"), ["--read".as_ref(), "y".as_ref()]);
    assert_eq!(arguments, ["cell", "--read", "/usr", "--network", "--", "--x", "--read", "y"]);
}
