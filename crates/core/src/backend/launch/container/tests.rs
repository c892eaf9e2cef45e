//! Tests of the engine and its arguments.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use pretty_assertions::assert_eq;
use tempfile::TempDir;

use super::*;
use mcp_workbench_settings::Sandbox;

fn launch(folder: &Path, args: &[&str], env: &[(&str, &str)]) -> StdioLaunch {
    let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    StdioLaunch {
        command: "node".to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: env.iter().map(pair).collect(),
        cwd: folder.to_owned(),
        inherit_env: true,
        secret_refs: [].into(),
        withheld: [].into(),
        has_own_folder: false,
        sandbox: Some(Sandbox::Off),
        starts_directly: true,
    }
}

fn container() -> Container {
    Container {
        image: "node:22".to_owned(),
        engine: Some("/bin/sh".to_owned()),
        read: [].into(),
        write: [].into(),
        has_network: false,
    }
}

fn environment() -> ChildEnvironment {
    let pairs = [("PATH", "/usr/bin:/bin"), ("DOCKER_HOST", "tcp://box"), ("KEY", "of-ours")];
    ChildEnvironment::new(pairs.map(|(key, value)| (key.into(), value.into())))
}

#[test]
fn mount_options_are_escaped() {
    let source = Path::new("/srv/data, and more");
    let expected = "type=bind,\"source=/srv/data, and more\",target=/d";
    assert_eq!(mount(source, Path::new("/d"), true), expected);
    let plain = mount(Path::new("/srv"), Path::new("/d"), false);
    assert_eq!(plain, "type=bind,source=/srv,target=/d,readonly");
}

#[test]
fn engine_is_never_searched_in_a_relative_folder() {
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("bin/docker");
    fs::create_dir(folder.path().join("bin")).unwrap();
    fs::write(&program, "").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let container = Container { engine: None, ..container() };
    let search = |path: &str| {
        let environment = ChildEnvironment::new([("PATH".into(), path.into())]);
        engine(&container, folder.path(), &environment).ok()
    };
    assert_eq!(search("bin:."), None);
    let absolute = folder.path().join("bin");
    assert_eq!(search(&format!("bin:{}", absolute.display())), Some(program.into()));
}

#[test]
fn env_values_stay_off_the_command_line() {
    let folder = TempDir::new().unwrap();
    let env = [("TOKEN", "s3cret"), ("PATH", "/opt/bin"), ("LD_PRELOAD", "/data/lib.so")];
    let launch = launch(folder.path(), &["a b"], &env);
    let mark = ("MARK", "1-a.1");
    let place = (Path::new("/homes/own"), &[][..]);
    let contained = container_command(&launch, &container(), &environment(), place, mark).unwrap();
    let args: Vec<_> = contained.args.iter().map(|arg| arg.to_str().unwrap()).collect();
    let env: Vec<_> =
        args.windows(2).filter(|pair| pair[0] == "--env").map(|pair| pair[1]).collect();
    // A server could change a library that the client would load.
    let preload = "LD_PRELOAD=/data/lib.so";
    assert_eq!(env, ["HOME=/homes/own", "MARK", preload, "PATH=/opt/bin", "TOKEN"]);
    assert!(args.ends_with(&["--entrypoint", "node", "node:22", "a b"]), "{args:?}");
    assert!(args.windows(2).any(|pair| pair == ["--network", "none"]), "{args:?}");
    // The client gets the engine's variables and no others, even with `inherit_env`.
    let of_client =
        |key: &str| contained.env.get(OsStr::new(key)).map(|value| value.to_str().unwrap());
    assert_eq!(of_client("PATH"), Some("/usr/bin:/bin"));
    assert_eq!(of_client("DOCKER_HOST"), Some("tcp://box"));
    assert_eq!(of_client("TOKEN"), Some("s3cret"));
    assert_eq!(of_client("KEY"), None);
    assert_eq!(of_client("LD_PRELOAD"), None);
    assert_eq!(contained.cleanup.args, ["rm", "--force", "mcp-workbench-1-a.1"]);
    assert!(!contained.cleanup.env.contains_key("TOKEN"));
}
