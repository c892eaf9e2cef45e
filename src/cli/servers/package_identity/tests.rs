use std::collections::BTreeMap;
use std::fs;

use pretty_assertions::assert_eq;
use serde_json::json;
use tempfile::TempDir;

use super::*;

struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn file(self, path: &str, text: &str) -> Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn npx(self, folder: &str, spec: &str, name: &str, version: &str) -> Self {
        let at = format!(".npm/_npx/{folder}");
        self.file(
            &format!("{at}/package.json"),
            &json!({ "_npx": { "packages": [spec] } }).to_string(),
        )
        .npm(&at, name, version)
    }

    fn npm(self, at: &str, name: &str, version: &str) -> Self {
        let entry = json!({ "version": version, "integrity": format!("sha512-{version}") });
        let lock = json!({ "packages": { (format!("node_modules/{name}")): entry } });
        self.file(&format!("{at}/node_modules/.package-lock.json"), &lock.to_string()).file(
            &format!("{at}/node_modules/{name}/package.json"),
            &json!({ "name": name, "version": version }).to_string(),
        )
    }

    fn python(self, site: &str, name: &str, version: &str, bytes: &str) -> Self {
        let info = format!("{site}/{}-{version}.dist-info", name.replace('-', "_"));
        let file = info.rsplit('/').next().unwrap().to_owned();
        let record = format!(
            "{name}/__main__.py,sha256={bytes},10\n../../../bin/{name},sha256=zz,9\n{file}/RECORD,,\n{file}/INSTALLER,sha256=q,4\n"
        );
        self.file(
            &format!("{info}/METADATA"),
            &format!("Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n\nName: no\n"),
        )
        .file(&format!("{info}/entry_points.txt"), &format!("[console_scripts]\n{name} = a:main\n"))
        .file(&format!("{info}/WHEEL"), "Wheel-Version: 1.0\nTag: py3-none-any\n")
        .file(&format!("{info}/RECORD"), &record)
    }

    fn identify(&self, command: &str, args: &[&str]) -> Option<PackageIdentity> {
        let launch = StdioLaunch {
            command: command.replace("HOME", &self.0.path().display().to_string()),
            args: args
                .iter()
                .map(|arg| arg.replace("HOME", &self.0.path().display().to_string()))
                .collect(),
            env: BTreeMap::new(),
            secret_refs: BTreeMap::new(),
            cwd: self.0.path().join("work"),
            inherit_env: false,
            withheld: std::collections::BTreeSet::new(),
            has_own_folder: false,
            sandbox: None,
            starts_directly: true,
        };
        let env: BTreeMap<String, String> =
            [("HOME".to_owned(), self.0.path().display().to_string())].into();
        identify(&launch, &env)
    }

    fn version(&self, command: &str, args: &[&str]) -> (Option<String>, Option<String>) {
        let identity = self.identify(command, args).unwrap();
        (identity.version, identity.integrity)
    }
}

fn both(version: &str, integrity: &str) -> (Option<String>, Option<String>) {
    (Some(version.to_owned()), Some(integrity.to_owned()))
}

#[test]
fn npx_runs_the_package_cached_for_the_same_spec() {
    let home =
        Home::new().npx("1", "@a/b", "@a/b", "1.2.0").npx("2", "@a/b@1.0.0", "@a/b", "1.0.0");
    assert_eq!(home.version("npx", &["-y", "@a/b"]), both("1.2.0", "sha512-1.2.0"));
    assert_eq!(home.version("npx", &["-y", "@a/b@1.0.0"]), both("1.0.0", "sha512-1.0.0"));
    assert_eq!(home.version("npx", &["-y", "@a/b@1.1.0"]), (Some("1.1.0".to_owned()), None));
    let unknown = home.identify("npx", &["-y", "c"]).unwrap();
    assert_eq!((unknown.version, unknown.is_unpinned), (None, true));
    assert!(unknown.unknown_reason.is_some());
    assert!(!home.identify("npx", &["@a/b@1.0.0"]).unwrap().is_unpinned);
}

#[test]
fn npx_prefers_the_package_of_the_working_folder() {
    let home = Home::new().npx("1", "b", "b", "1.2.0").npm("work", "b", "1.1.0");
    assert_eq!(home.version("npx", &["b"]), both("1.1.0", "sha512-1.1.0"));
    assert_eq!(
        home.version("npx", &["b@latest"]),
        (None, None),
        "never requested with this spelling"
    );
}

#[test]
fn identifies_a_script_below_node_modules() {
    let home = Home::new().npm("work", "@a/b", "1.1.0");
    for (command, args) in [
        ("node", ["node_modules/@a/b/dist/index.js"]),
        ("node", ["HOME/work/node_modules/@a/b/dist/index.js"]),
    ] {
        let identity = home.identify(command, &args).unwrap();
        assert_eq!((identity.name.as_str(), identity.is_unpinned), ("@a/b", false));
        assert_eq!(identity.integrity.as_deref(), Some("sha512-1.1.0"));
    }
    assert_eq!(home.identify("node", &["server.js"]), None);
    assert_eq!(home.identify("/bin/true", &[]), None);
}

#[test]
fn identifies_programs_and_modules_of_a_virtual_environment() {
    let site = "venv/lib/python3.12/site-packages";
    let home = Home::new()
        .file("venv/pyvenv.cfg", "")
        .python(site, "a-server", "3.1", "x")
        .python(site, "b-server", "1.0", "y");
    let by_entry = home.identify("HOME/venv/bin/a-server", &[]).unwrap();
    assert_eq!((by_entry.name.as_str(), by_entry.version.as_deref()), ("a-server", Some("3.1")));
    assert!(by_entry.integrity.unwrap().starts_with("record-sha256:"));
    let by_module = home.identify("HOME/venv/bin/python3", &["-m", "b-server"]).unwrap();
    assert_eq!(by_module.name, "b-server");
    let with_flag = home.identify("HOME/venv/bin/python3", &["-u", "-m", "b-server"]).unwrap();
    assert_eq!(with_flag.name, "b-server");
    assert_eq!(home.identify("HOME/venv/bin/python3", &["x.py", "-m", "b-server"]), None);
    assert_eq!(home.identify("HOME/venv/bin/nobody", &[]), None);
}

#[test]
fn python_record_digest_is_the_same_on_every_machine() {
    let of = |site: &str, bytes: &str| {
        let home = Home::new().python(site, "a", "1.0", bytes);
        home.version("uvx", &["a"]).1
    };
    let one = of(".cache/uv/archive-v0/x/lib/python3.12/site-packages", "x");
    assert!(one.is_some());
    assert_eq!(one, of(".cache/uv/archive-v0/y", "x"), "unpacked and installed");
    assert_ne!(one, of(".cache/uv/archive-v0/y", "z"));
    let info = ".cache/uv/archive-v0/y/a-1.0.dist-info";
    for (file, text) in [
        ("WHEEL", "Wheel-Version: 1.0\nTag: cp312-cp312-manylinux_2_17_x86_64\n"),
        ("direct_url.json", r#"{"url":"file:///here","dir_info":{"editable":true}}"#),
    ] {
        let home = Home::new().python(".cache/uv/archive-v0/y", "a", "1.0", "x");
        let home = home.file(&format!("{info}/{file}"), text);
        assert_eq!(home.version("uvx", &["a"]), (Some("1.0".to_owned()), None), "{file}");
    }
}

#[test]
fn reports_no_version_when_the_cache_has_several() {
    let home = Home::new().python(".cache/uv/archive-v0/x", "a", "1.0", "x").python(
        ".cache/uv/archive-v0/y",
        "a",
        "2.0",
        "y",
    );
    assert_eq!(home.version("uvx", &["a"]), (None, None));
    assert_eq!(home.version("uvx", &["a@2.0"]).0.as_deref(), Some("2.0"));
    let home = home.python(".local/share/uv/tools/a/lib/python3.12/site-packages", "a", "1.5", "z");
    assert_eq!(home.version("uvx", &["a"]).0.as_deref(), Some("1.5"), "it is installed");
    let home = home.python(".cache/pipx/k/lib/python3.12/site-packages", "c", "1.0", "x");
    assert_eq!(home.version("pipx", &["run", "c"]).0.as_deref(), Some("1.0"));
}

#[test]
fn identifies_an_image_by_its_digest() {
    let home = Home::new();
    let pinned = home.identify("docker", &["run", "-i", "a/b:1@sha256:00"]).unwrap();
    assert_eq!((pinned.integrity.as_deref(), pinned.is_unpinned), (Some("sha256:00"), false));
    let loose = home.identify("docker", &["run", "-i", "a/b"]).unwrap();
    assert_eq!((loose.integrity, loose.is_unpinned), (None, true));
}

#[test]
fn compare_reports_package_version_or_digest() {
    let home = Home::new().npx("1", "b", "b", "1.2.0");
    let identity = home.identify("npx", &["b"]).unwrap();
    let differs = |name: &str, version: Option<&str>, integrity: Option<&str>| {
        identity.compare(&LockedPackage {
            ecosystem: Ecosystem::Npm,
            name: name.to_owned(),
            version: version.map(str::to_owned),
            integrity: integrity.map(str::to_owned),
            contents: None,
        })
    };
    assert_eq!(differs("b", Some("1.2.0"), Some("sha512-1.2.0")), None);
    assert_eq!(differs("b", None, Some("record-sha256:aa")), None);
    assert_eq!(differs("b", Some("1.2.0"), Some("record-sha256:aa")), None);
    assert_eq!(differs("b", Some("1.1.0"), None), Some(PackageDifference::Version));
    assert_eq!(differs("b", Some("1.1.0"), Some("sha512-other")), Some(PackageDifference::Version));
    assert_eq!(differs("b", Some("1.2.0"), Some("sha512-other")), Some(PackageDifference::Bytes));
    assert_eq!(differs("b", None, Some("sha512-other")), Some(PackageDifference::Version));
    assert_eq!(differs("c", Some("1.2.0"), Some("sha512-1.2.0")), Some(PackageDifference::Package));
}

#[test]
fn ignores_malformed_package_metadata() {
    let home = Home::new()
        .file(".npm/_npx/1/package.json", "[")
        .file(".npm/_npx/2/package.json", r#"{"_npx":{"packages":["b"]}}"#)
        .file(".npm/_npx/2/node_modules/b/package.json", r#"{"version":3}"#);
    assert_eq!(home.version("npx", &["b"]), (None, None));
}
