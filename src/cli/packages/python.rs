//! Packages of Python, from what installers write beside each (PEP 376, PEP 610).

use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::cli::packages::{Found, Identity, Vars, folders, read};
use crate::settings::{Ecosystem, Package, StdioLaunch, Wanted};

/// Environments of a cache that are looked through at most.
const MAX_ENVIRONMENTS: usize = 2_000;

/// Returns what `uvx` would run without a look at the registry: the tool that is installed, if no version
/// is asked for, or what is in its cache, if that is certain.
pub(super) fn of_uv(package: &Package, vars: &Vars<'_>) -> Option<Found> {
    let tools = vars.data("UV_TOOL_DIR", "uv/tools");
    let tool =
        tools.and_then(|tools| distribution(&tools.join(normal(&package.name)), &package.name));
    let fits = |found: &Found| match &package.wanted {
        Wanted::Version(version) => *version == found.version,
        Wanted::Newest => !package.spec.ends_with("@latest"),
        _ => false,
    };
    if let Some(found) = tool.filter(fits) {
        return Some(found);
    }
    let archives = vars.cache("UV_CACHE_DIR", "uv")?.join("archive-v0");
    the_one(package, folders(&archives))
}

/// Returns what `pipx run` would run without a look at the registry, if that is certain.
pub(super) fn of_pipx(package: &Package, vars: &Vars<'_>) -> Option<Found> {
    let home = vars.data("PIPX_HOME", "pipx")?;
    let caches = [Some(home.join(".cache")), vars.cache("PIPX_CACHE", "pipx")];
    the_one(package, caches.into_iter().flatten().flat_map(|cache| folders(&cache)))
}

/// Returns the one version of a package in some environments that fits; none if there are several.
fn the_one(package: &Package, environments: impl IntoIterator<Item = PathBuf>) -> Option<Found> {
    let environments = environments.into_iter().take(MAX_ENVIRONMENTS);
    let mut found: Vec<Found> = environments
        .filter_map(|environment| distribution(&environment, &package.name))
        .filter(|found| match &package.wanted {
            Wanted::Version(version) => *version == found.version,
            _ => true,
        })
        .collect();
    found.dedup_by(|a, b| (&a.version, &a.integrity) == (&b.version, &b.integrity));
    if found.len() == 1 { found.pop() } else { None }
}

/// Returns the package whose entry point a program in a virtual environment is, or whose module its
/// interpreter is told to run.
pub(super) fn by_path(launch: &StdioLaunch) -> Option<Identity> {
    let program = launch.cwd.join(&launch.command);
    // The interpreter of an environment is a link out of it.
    let environment = program.parent()?.parent()?;
    if !environment.join("pyvenv.cfg").is_file() {
        return None;
    }
    let stem = program.file_stem()?.to_str()?;
    // Flags such as `-u` may stand before it; after a script, the words are the script's.
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
    Some(Identity::installed(Ecosystem::PyPi, name, found))
}

/// Returns the version of a package in an environment, or in a folder that becomes part of one.
fn distribution(environment: &Path, name: &str) -> Option<Found> {
    let wanted = normal(name);
    let is_wanted = |info: &PathBuf| {
        let stem = info.file_stem().and_then(|stem| stem.to_str());
        stem.and_then(|stem| stem.split('-').next()).is_some_and(|name| normal(name) == wanted)
    };
    let info = infos(environment).into_iter().find(is_wanted)?;
    described(&info).map(|(_, found)| found)
}

/// Returns the folders that describe what is installed in an environment.
fn infos(environment: &Path) -> Vec<PathBuf> {
    let versions = folders(&environment.join("lib"));
    let sites = versions.iter().map(|version| version.join("site-packages"));
    let sites =
        sites.chain([environment.join("Lib").join("site-packages"), environment.to_owned()]);
    let is_info = |path: &PathBuf| path.extension().is_some_and(|end| end == "dist-info");
    sites.flat_map(|site| folders(&site)).filter(is_info).collect()
}

/// Returns the name of a package and its version, as its installer has written it.
fn described(info: &Path) -> Option<(String, Found)> {
    let evidence = info.join("METADATA");
    let text = read(&evidence)?;
    let head = || text.lines().take_while(|line| !line.is_empty());
    let field = |name: &str| head().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let (name, version) = (field("Name:")?.to_owned(), field("Version:")?.to_owned());
    let integrity = archive(info).or_else(|| recorded(info));
    Some((name, Found { version, integrity, evidence }))
}

/// Returns the digest of the file that a package was installed from, if it was a file.
fn archive(info: &Path) -> Option<String> {
    let json: Value = serde_json::from_str(&read(&info.join("direct_url.json"))?).ok()?;
    let digest = json.pointer("/archive_info/hashes/sha256")?.as_str()?;
    Some(format!("sha256:{digest}"))
}

/// Returns a digest of the digests of all files that a package came with, which is the same on every
/// machine: what installers and builders add is left out. There is none of a package that is not the
/// same everywhere: one that is made for a platform, or is installed from a folder.
fn recorded(info: &Path) -> Option<String> {
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
    Some(format!(
        "record-sha256:{}",
        digest.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
    ))
}

/// Returns `true` if a package has an entry point of this name.
fn has_entry_point(info: &Path, name: &str) -> bool {
    let Some(text) = read(&info.join("entry_points.txt")) else { return false };
    text.lines().any(|line| line.split_once('=').is_some_and(|(entry, _)| entry.trim() == name))
}

/// Returns `true` if a package has this module.
fn has_module(info: &Path, module: &str) -> bool {
    let Some(record) = read(&info.join("RECORD")) else { return false };
    let top = module.replace('.', "/");
    let (package, file) = (format!("{top}/__main__.py,"), format!("{top}.py,"));
    record.lines().any(|line| line.starts_with(&package) || line.starts_with(&file))
}

/// Returns the form of a name that all its spellings have in common (PEP 503).
fn normal(name: &str) -> String {
    let parts: Vec<&str> = name.split(['-', '_', '.']).filter(|part| !part.is_empty()).collect();
    parts.join("-").to_ascii_lowercase()
}
