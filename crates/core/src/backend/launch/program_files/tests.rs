use std::fs;

use pretty_assertions::assert_eq;

use super::*;

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
        let read = code(&folder.join(script), Some(&folder));
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
}
