//! Python packages, identified from the metadata that installers write (PEP 376, PEP 610).

use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::cli::servers::package_identity::{
    InstalledPackage, LaunchEnv, PackageIdentity, folders, read,
};
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

/// Finds a package in an environment, or in an unpacked archive of uv's cache.
fn distribution(environment: &Path, name: &str) -> Option<InstalledPackage> {
    let wanted = normal(name);
    let is_wanted = |info: &PathBuf| {
        let stem = info.file_stem().and_then(|stem| stem.to_str());
        stem.and_then(|stem| stem.split('-').next()).is_some_and(|name| normal(name) == wanted)
    };
    let info = infos(environment).into_iter().find(is_wanted)?;
    described(&info).map(|(_, found)| found)
}

fn infos(environment: &Path) -> Vec<PathBuf> {
    let versions = folders(&environment.join("lib"));
    let sites = versions.iter().map(|version| version.join("site-packages"));
    let sites =
        sites.chain([environment.join("Lib").join("site-packages"), environment.to_owned()]);
    let is_info = |path: &PathBuf| path.extension().is_some_and(|end| end == "dist-info");
    sites.flat_map(|site| folders(&site)).filter(is_info).collect()
}

fn described(info: &Path) -> Option<(String, InstalledPackage)> {
    let evidence = info.join("METADATA");
    let text = read(&evidence)?;
    let head = || text.lines().take_while(|line| !line.is_empty());
    let field = |name: &str| head().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let (name, version) = (field("Name:")?.to_owned(), field("Version:")?.to_owned());
    let integrity = archive(info).or_else(|| record_digest(info));
    Some((name, InstalledPackage { version, integrity, evidence }))
}

fn archive(info: &Path) -> Option<String> {
    let json: Value = serde_json::from_str(&read(&info.join("direct_url.json"))?).ok()?;
    let digest = json.pointer("/archive_info/hashes/sha256")?.as_str()?;
    Some(format!("sha256:{digest}"))
}

/// Returns a digest over the `RECORD` entries of a package, which is the same on every machine:
/// files that installers and builders add are left out. Returns `None` for packages that differ
/// between machines: platform-specific wheels and packages installed from a folder.
fn record_digest(info: &Path) -> Option<String> {
    let wheel = read(&info.join("WHEEL"))?;
    let mut tags = wheel.lines().filter_map(|line| line.strip_prefix("Tag:"));
    let is_from_folder = || {
        let direct = read(&info.join("direct_url.json"))?;
        serde_json::from_str::<Value>(&direct).ok()?.get("dir_info").cloned()
    };
    if !tags.all(|tag| tag.trim().ends_with("-none-any")) || is_from_folder().is_some() {
        return None;
    }
    let record = read(&info.join("RECORD"))?;
    let folder = info.file_name()?.to_str()?;
    let added = [
        "INSTALLER",
        "REQUESTED",
        "RECORD",
        "METADATA",
        "WHEEL",
        "direct_url.json",
        "uv_cache.json",
        "uv_build.json",
    ];
    let is_added = |path: &str| {
        path.starts_with("..")
            || path.starts_with('/')
            || path.contains("__pycache__")
            || path
                .strip_prefix(folder)
                .is_some_and(|file| added.contains(&file.trim_start_matches('/')))
    };
    let mut lines: Vec<&str> = record
        .lines()
        .map(str::trim)
        .filter(|line| {
            !line.is_empty()
                && !is_added(line.split(',').next().unwrap_or_default().trim_matches('"'))
        })
        .collect();
    lines.sort_unstable();
    if lines.is_empty() {
        return None;
    }
    let digest = Sha256::digest(lines.join("\n").as_bytes());
    Some(format!("record-sha256:{}", hex::encode(digest)))
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

/// Normalizes a package name (PEP 503).
fn normal(name: &str) -> String {
    let parts: Vec<&str> = name.split(['-', '_', '.']).filter(|part| !part.is_empty()).collect();
    parts.join("-").to_ascii_lowercase()
}
