//! Python packages, identified from the metadata that installers write (PEP 376, PEP 610).

use std::path::{Path, PathBuf};

use crate::cli::servers::package_identity::{LaunchEnv, PackageIdentity};
use mcp_workbench_core::backend::installed_package::python::{
    described, distribution, infos, normal,
};
use mcp_workbench_core::backend::installed_package::{InstalledPackage, folders, read};
use mcp_workbench_settings::{Ecosystem, Package, StdioLaunch, VersionRequest};

const MAX_ENVIRONMENTS: usize = 2_000;

/// Returns the package that `uvx` would run without a registry lookup: the installed tool, or else
/// the cached version if there is exactly one.
pub(super) fn find_uv_tool(package: &Package, vars: &LaunchEnv<'_>) -> Option<InstalledPackage> {
    let tools = vars.data("UV_TOOL_DIR", "uv/tools");
    let tool =
        tools.and_then(|tools| distribution(&tools.join(normal(&package.name)), &package.name));
    let fits = |found: &InstalledPackage| match &package.requested {
        VersionRequest::Version(version) => *version == found.version,
        VersionRequest::Latest => !package.spec.ends_with("@latest"),
        _ => false,
    };
    if let Some(found) = tool.filter(fits) {
        return Some(found);
    }
    let archives = vars.cache("UV_CACHE_DIR", "uv")?.join("archive-v0");
    single_match(package, folders(&archives))
}

/// Returns the package that `pipx run` would run without a registry lookup, if exactly one is
/// cached.
pub(super) fn find_pipx_package(
    package: &Package,
    vars: &LaunchEnv<'_>,
) -> Option<InstalledPackage> {
    let home = vars.data("PIPX_HOME", "pipx")?;
    let caches = [Some(home.join(".cache")), vars.cache("PIPX_CACHE", "pipx")];
    single_match(package, caches.into_iter().flatten().flat_map(|cache| folders(&cache)))
}

/// Returns the matching version of a package, or `None` if the environments contain several.
fn single_match(
    package: &Package,
    environments: impl IntoIterator<Item = PathBuf>,
) -> Option<InstalledPackage> {
    let environments = environments.into_iter().take(MAX_ENVIRONMENTS);
    let mut found: Vec<InstalledPackage> = environments
        .filter_map(|environment| distribution(&environment, &package.name))
        .filter(|found| match &package.requested {
            VersionRequest::Version(version) => *version == found.version,
            _ => true,
        })
        .collect();
    found.dedup_by(|a, b| (&a.version, &a.integrity) == (&b.version, &b.integrity));
    if found.len() == 1 { found.pop() } else { None }
}

/// Returns the package that owns the launched entry point of a virtual environment, or the module
/// that its interpreter runs with `-m`.
pub(super) fn by_path(launch: &StdioLaunch) -> Option<PackageIdentity> {
    let program = launch.cwd.join(&launch.command);
    // Not canonicalized: the interpreter of an environment is a symlink to one outside.
    let environment = program.parent()?.parent()?;
    if !environment.join("pyvenv.cfg").is_file() {
        return None;
    }
    let stem = program.file_stem()?.to_str()?;
    // Flags such as `-u` can precede `-m`; after a script, all arguments belong to the script.
    let mut words = launch.args.iter().skip_while(|word| word.starts_with('-') && *word != "-m");
    let module = match (words.next(), words.next()) {
        (Some(flag), Some(module)) if flag == "-m" && stem.starts_with("python") => Some(module),
        _ => None,
    };
    let owns = |info: &Path| match module {
        Some(module) => has_module(info, module),
        None => has_entry_point(info, stem),
    };
    let info = infos(environment).into_iter().find(|info| owns(info))?;
    let (name, found) = described(&info)?;
    Some(PackageIdentity::from_installed(Ecosystem::PyPi, name, found))
}

fn has_entry_point(info: &Path, name: &str) -> bool {
    let Some(text) = read(&info.join("entry_points.txt")) else { return false };
    text.lines().any(|line| line.split_once('=').is_some_and(|(entry, _)| entry.trim() == name))
}

fn has_module(info: &Path, module: &str) -> bool {
    let Some(record) = read(&info.join("RECORD")) else { return false };
    let top = module.replace('.', "/");
    let (package, file) = (format!("{top}/__main__.py,"), format!("{top}.py,"));
    record.lines().any(|line| line.starts_with(&package) || line.starts_with(&file))
}
