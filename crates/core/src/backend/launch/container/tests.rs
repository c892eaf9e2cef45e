//! Tests of container mounts and engine arguments.

use std::fs;

use pretty_assertions::assert_eq;
use tempfile::TempDir;

use super::*;
use crate::settings::Sandbox;

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
fn paths_in_arguments_are_mounted_at_the_same_path() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("app/lib")).unwrap();
    fs::create_dir_all(root.join("data, and more")).unwrap();
    fs::write(root.join("app/package.json"), "{}").unwrap();
    fs::write(root.join("app/server.js"), "").unwrap();
    let root_text = root.to_str().unwrap();
    let data = format!("--data={root_text}/data, and more");
    let launch = launch(&root.join("app"), &["./server.js", &data, "/usr/bin/env"], &[]);
    let mounts = mounts(&launch, &container(), &environment(), Path::new("/homes/own"));
    let shown: Vec<_> = mounts
        .iter()
        .map(|(target, mount)| {
            assert_eq!(target, &mount.source);
            let path = target.strip_prefix(&root).unwrap_or(target);
            (path.to_str().unwrap(), mount.is_writable)
        })
        .collect();
    let expected =
        [("/homes/own", true), ("app", false), ("app/server.js", false), ("data, and more", true)];
    assert_eq!(shown, expected);
    let source = root.join("data, and more");
    let text = mount(&source, Path::new("/d"), true);
    assert_eq!(
        text.to_str().unwrap(),
        format!("type=bind,\"source={}\",target=/d", source.display())
    );
}

#[test]
fn env_values_stay_off_the_command_line() {
    let folder = TempDir::new().unwrap();
    let env = [("TOKEN", "s3cret"), ("PATH", "/opt/bin")];
    let launch = launch(folder.path(), &["a b"], &env);
    let mark = ("MARK", "1-a.1");
    let contained =
        container_command(&launch, &container(), &environment(), Path::new("/homes/own"), mark)
            .unwrap();
    let args: Vec<_> = contained.args.iter().map(|arg| arg.to_str().unwrap()).collect();
    let env: Vec<_> =
        args.windows(2).filter(|pair| pair[0] == "--env").map(|pair| pair[1]).collect();
    assert_eq!(env, ["HOME=/homes/own", "MARK", "PATH=/opt/bin", "TOKEN"]);
    assert!(args.ends_with(&["--entrypoint", "node", "node:22", "a b"]), "{args:?}");
    assert!(args.windows(2).any(|pair| pair == ["--network", "none"]), "{args:?}");
    // The client gets the engine's variables and no others, even with `inherit_env`.
    let of_client =
        |key: &str| contained.env.get(OsStr::new(key)).map(|value| value.to_str().unwrap());
    assert_eq!(of_client("PATH"), Some("/usr/bin:/bin"));
    assert_eq!(of_client("DOCKER_HOST"), Some("tcp://box"));
    assert_eq!(of_client("TOKEN"), Some("s3cret"));
    assert_eq!(of_client("KEY"), None);
    assert_eq!(contained.cleanup.args, ["rm", "--force", "mcp-workbench-1-a.1"]);
    assert!(!contained.cleanup.env.contains_key("TOKEN"));
}
