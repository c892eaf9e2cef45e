//! npm packages, identified from the lock file in each `node_modules`.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use crate::cli::servers::package_identity::{LaunchEnv, PackageIdentity};
use mcp_workbench_core::backend::installed_package::npm::installed;
use mcp_workbench_core::backend::installed_package::{InstalledPackage, folders, read};
use mcp_workbench_settings::{Ecosystem, Package, StdioLaunch, VersionRequest};

/// Returns the package that `npx` would run without a registry lookup: an installed one in the
/// working folder or above, or the one it has cached for the same spec.
pub(super) fn find_npx_package(
    package: &Package,
    vars: &LaunchEnv<'_>,
) -> Option<InstalledPackage> {
    let beside = vars.launch.cwd.ancestors().find_map(|folder| installed(folder, &package.name));
    if let Some(found) = beside {
        let fits = match &package.requested {
            VersionRequest::Version(version) => *version == found.version,
            VersionRequest::Latest => package.spec == package.name,
            _ => false,
        };
        if fits {
            return Some(found);
        }
    }
    let cache = vars.get("npm_config_cache").or_else(|| vars.get("NPM_CONFIG_CACHE"));
    let cache = cache.map(PathBuf::from).or_else(|| own_cache(vars))?;
    let folders = folders(&cache.join("_npx"));
    let mut found: Vec<InstalledPackage> = folders
        .iter()
        .filter(|folder| was_asked_for(folder, package))
        .filter_map(|folder| installed(folder, &package.name))
        .collect();
    found.dedup_by(|a, b| (&a.version, &a.integrity) == (&b.version, &b.integrity));
    // With several versions cached for this spec, it's unknown which one npx would run.
    if found.len() == 1 { found.pop() } else { None }
}

fn own_cache(vars: &LaunchEnv<'_>) -> Option<PathBuf> {
    let unix = vars.home()?.join(".npm");
    let windows = || Some(PathBuf::from(vars.env.get("LOCALAPPDATA")?).join("npm-cache"));
    if unix.is_dir() { Some(unix) } else { windows().filter(|folder| folder.is_dir()) }
}

fn was_asked_for(folder: &Path, package: &Package) -> bool {
    let Some(text) = read(&folder.join("package.json")) else { return false };
    let Ok(manifest) = serde_json::from_str::<Value>(&text) else { return false };
    let asked = manifest.pointer("/_npx/packages").and_then(Value::as_array);
    asked.is_some_and(|asked| asked.iter().any(|spec| spec.as_str() == Some(&package.spec)))
}

/// Returns the package that contains the launched program, or a script among its first arguments.
pub(super) fn by_path(launch: &StdioLaunch) -> Option<PackageIdentity> {
    let words = std::iter::once(&launch.command).chain(launch.args.iter().take(8));
    words.filter(|word| word.contains(['/', '\\']) && !word.starts_with('-')).find_map(|word| {
        let path = launch.cwd.join(word);
        // The entries of `.bin` are symlinks into the packages.
        let real = path.canonicalize().unwrap_or(path);
        let (folder, name) = inside(&real)?;
        Some(PackageIdentity::from_installed(
            Ecosystem::Npm,
            name.clone(),
            installed(&folder, &name)?,
        ))
    })
}

/// Returns the folder of the innermost `node_modules` on a path, and the package below it.
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
