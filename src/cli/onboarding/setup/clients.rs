//! Finds the configuration files of installed clients.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::authoring::client_files::{ClientApp, FileScope, FileSyntax, KnownFile, known_files};
use crate::cli::files::source_files::below_home;
use mcp_workbench_config::env::EnvSource;
use mcp_workbench_os::{Platform, is_same_file, read_input_text};

#[derive(Clone, Debug)]
pub(super) struct ClientFile {
    pub(super) program: &'static ClientApp,
    pub(super) path: PathBuf,
    /// The path for messages, with `~` for the home folder.
    pub(super) shown: String,
    /// `None` if the client is installed but has no such file yet.
    pub(super) text: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct InstalledClients {
    pub(super) files: Vec<ClientFile>,
    /// The client, path and error of each unreadable file.
    pub(super) unreadable: Vec<(&'static ClientApp, String, String)>,
}

pub(super) fn find(
    platform: Platform,
    env: &dyn EnvSource,
    folder: &Path,
    ids: &[String],
) -> InstalledClients {
    let home = env.home_dir();
    let mut here = InstalledClients::default();
    let mut known = known_files(platform, env, folder);
    known.retain(|file| {
        let is_chosen = ids.is_empty() || ids.iter().any(|id| id == file.program.id);
        file.scope == FileScope::User && file.takes_servers && is_chosen
    });
    for file in &known {
        let beside = || known.iter().filter(|other| other.path.parent() == file.path.parent());
        let is_first = beside().next().is_some_and(|first| first.path == file.path);
        let has_none = || beside().all(|other| !other.path.exists());
        let shown = shown(&file.path, home.as_deref());
        if here.files.iter().any(|other| is_same(other, file)) {
            continue;
        }
        match read(&file.path) {
            Ok(None) if is_first && has_none() && is_installed(file, home.as_deref()) => {
                here.files.push(client_file(file, shown, None));
            }
            Ok(None) => {}
            Ok(Some(text)) => here.files.push(client_file(file, shown, Some(text))),
            Err(why) => here.unreadable.push((file.program, shown, why)),
        }
    }
    here
}

/// Returns `true` if a symlink makes two clients share one file and the key for servers in it.
fn is_same(one: &ClientFile, other: &KnownFile) -> bool {
    let is_one_file = match (fs::metadata(&one.path), fs::metadata(&other.path)) {
        (Ok(one), Ok(other)) => is_same_file(&one, &other),
        (Err(_), _) | (_, Err(_)) => false,
    };
    is_one_file && one.program.servers == other.program.servers
}

fn client_file(file: &KnownFile, shown: String, text: Option<String>) -> ClientFile {
    ClientFile { program: file.program, path: file.path.clone(), shown, text }
}

/// Returns `true` if the folder of a missing file exists, and the client accepts a file with
/// nothing but servers.
fn is_installed(file: &KnownFile, home: Option<&Path>) -> bool {
    let folder = file.path.parent();
    folder != home && folder.is_some_and(Path::is_dir) && file.program.syntax != FileSyntax::Yaml
}

pub(super) fn shown(path: &Path, home: Option<&Path>) -> String {
    below_home(path, home).display().to_string()
}

pub(super) fn read(path: &Path) -> Result<Option<String>, String> {
    match read_input_text(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns the `.toml` files in a folder, by name. A folder that can't be read has none.
pub(super) fn toml_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|ending| ending == "toml")).collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pretty_assertions::assert_eq;

    use super::*;

    fn found(home: &Path, platform: Platform) -> Vec<(String, bool)> {
        let env: BTreeMap<_, _> = [("HOME".to_owned(), home.display().to_string())].into();
        let here = find(platform, &env, Path::new("/nowhere"), &[]);
        let files = here.files.into_iter();
        files.map(|file| (file.shown, file.text.is_some())).collect()
    }

    #[test]
    fn finds_client_files_on_each_platform() {
        for platform in [Platform::Linux, Platform::MacOs, Platform::Windows] {
            let env: BTreeMap<_, _> = [("HOME".to_owned(), "/h".to_owned())].into();
            for file in known_files(platform, &env, Path::new("/p")) {
                let Ok(inside) = file.path.strip_prefix("/h") else { continue };
                let home = tempfile::tempdir().unwrap();
                let path = home.path().join(inside);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, "{}").unwrap();
                let shown = Path::new("~").join(inside).display().to_string();
                let found = found(home.path(), platform);
                let expected: &[(String, bool)] = &[(shown, true)];
                let expected = if file.takes_servers { expected } else { &[] };
                let own = found.iter().filter(|(_, is_there)| *is_there).cloned();
                assert_eq!(own.collect::<Vec<_>>(), expected, "{platform:?}");
            }
        }
    }

    #[test]
    fn detects_a_client_by_its_folder() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(found(home.path(), Platform::Linux), []);
        for folder in [".cursor", ".config/opencode", ".config/goose", ".continue"] {
            fs::create_dir_all(home.path().join(folder)).unwrap();
        }
        let wanted = ["~/.cursor/mcp.json", "~/.config/opencode/opencode.json"];
        assert_eq!(
            found(home.path(), Platform::Linux),
            wanted.map(|file| (file.to_owned(), false))
        );
        fs::write(home.path().join(".config/opencode/opencode.jsonc"), "{}").unwrap();
        let wanted = [("~/.cursor/mcp.json", false), ("~/.config/opencode/opencode.jsonc", true)];
        assert_eq!(
            found(home.path(), Platform::Linux),
            wanted.map(|(file, is_there)| (file.to_owned(), is_there))
        );
    }

    #[test]
    fn reports_client_files_that_are_not_utf8() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join(".cursor")).unwrap();
        fs::write(home.path().join(".cursor/mcp.json"), [0xff, 0xfe]).unwrap();
        let env: BTreeMap<_, _> = [("HOME".to_owned(), home.path().display().to_string())].into();
        let here = find(Platform::Linux, &env, Path::new("/nowhere"), &[]);
        let told: Vec<_> = here.unreadable.iter().map(|(_, file, why)| (&**file, &**why)).collect();
        assert_eq!(told, [("~/.cursor/mcp.json", "it is not valid UTF-8")]);
    }
}
