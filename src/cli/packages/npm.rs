//! Packages of npm, from the lock files that it keeps in each `node_modules`.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use crate::cli::packages::{Found, Identity, Vars, folders, read};
use crate::settings::{Ecosystem, Package, StdioLaunch, Wanted};

/// Returns what `npx` would run without a look at the registry: what is installed beside the launch, or
/// what it has fetched for the same words before.
pub(super) fn fetched(package: &Package, vars: &Vars<'_>) -> Option<Found> {
    let beside = vars.launch.cwd.ancestors().find_map(|folder| installed(folder, &package.name));
    if let Some(found) = beside {
        let fits = match &package.wanted {
            Wanted::Version(version) => *version == found.version,
            Wanted::Newest => package.spec == package.name,
            _ => false,
        };
        if fits {
            return Some(found);
        }
    }
    let cache = vars.get("npm_config_cache").or_else(|| vars.get("NPM_CONFIG_CACHE"));
    let cache = cache.map(PathBuf::from).or_else(|| own_cache(vars))?;
    let folders = folders(&cache.join("_npx"));
    let mut found: Vec<Found> = folders
        .iter()
        .filter(|folder| was_asked_for(folder, package))
        .filter_map(|folder| installed(folder, &package.name))
        .collect();
    found.dedup_by(|a, b| (&a.version, &a.integrity) == (&b.version, &b.integrity));
    // Which of several is meant, is not said.
    if found.len() == 1 { found.pop() } else { None }
}

/// Returns the folder that npm keeps what it fetches in, unless told otherwise.
fn own_cache(vars: &Vars<'_>) -> Option<PathBuf> {
    let unix = vars.home()?.join(".npm");
    let windows = || Some(PathBuf::from(vars.env.get("LOCALAPPDATA")?).join("npm-cache"));
    if unix.is_dir() { Some(unix) } else { windows().filter(|folder| folder.is_dir()) }
}

/// Returns `true` if a folder of `npx` was made for the same words.
fn was_asked_for(folder: &Path, package: &Package) -> bool {
    let Some(text) = read(&folder.join("package.json")) else { return false };
    let Ok(manifest) = serde_json::from_str::<Value>(&text) else { return false };
    let asked = manifest.pointer("/_npx/packages").and_then(Value::as_array);
    asked.is_some_and(|asked| asked.iter().any(|spec| spec.as_str() == Some(&package.spec)))
}

/// Returns the version of a package in the `node_modules` of a folder.
fn installed(folder: &Path, name: &str) -> Option<Found> {
    let modules = folder.join("node_modules");
    let manifest = modules.join(name).join("package.json");
    let text = read(&manifest)?;
    let json: Value = serde_json::from_str(&text).ok()?;
    let version = json.get("version")?.as_str()?.to_owned();
    let locks = [modules.join(".package-lock.json"), folder.join("package-lock.json")];
    let locked = locks.iter().find_map(|lock| Some((locked(lock, name, &version)?, lock.clone())));
    let (integrity, evidence) =
        locked.map_or((None, manifest), |(digest, lock)| (Some(digest), lock));
    Some(Found { version, integrity, evidence })
}

/// Returns the digest that a lock file has of this version.
fn locked(lock: &Path, name: &str, version: &str) -> Option<String> {
    let json: Value = serde_json::from_str(&read(lock)?).ok()?;
    let entry = json.get("packages")?.get(format!("node_modules/{name}"))?;
    let is_same = entry.get("version").and_then(Value::as_str) == Some(version);
    is_same.then(|| entry.get("integrity")?.as_str().map(str::to_owned)).flatten()
}

/// Returns the package in whose folder the program is, or the script that it is given.
pub(super) fn by_path(launch: &StdioLaunch) -> Option<Identity> {
    let words = std::iter::once(&launch.command).chain(launch.args.iter().take(8));
    words.filter(|word| word.contains(['/', '\\']) && !word.starts_with('-')).find_map(|word| {
        let path = launch.cwd.join(word);
        // The entries of `.bin` are links into the packages.
        let real = path.canonicalize().unwrap_or(path);
        let (folder, name) = inside(&real)?;
        Some(Identity::installed(Ecosystem::Npm, name.clone(), installed(&folder, &name)?))
    })
}

/// Returns the folder with the innermost `node_modules` of a path, and the package there.
fn inside(path: &Path) -> Option<(PathBuf, String)> {
    let parts: Vec<Component<'_>> = path.components().collect();
    let at = parts.iter().rposition(|part| part.as_os_str() == "node_modules")?;
    let text = |at: usize| parts.get(at).and_then(|part| part.as_os_str().to_str());
    let first = text(at + 1)?;
    let name = if first.starts_with('@') {
        format!("{first}/{}", text(at + 2)?)
    } else {
        first.to_owned()
    };
    Some((parts.get(..at)?.iter().collect(), name))
}
