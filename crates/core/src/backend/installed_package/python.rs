//! Python packages, identified from the metadata that installers write (PEP 376, PEP 610).

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::backend::installed_package::{InstalledPackage, folders, read};
use mcp_workbench_os::read_input;

/// A larger file of a package counts as changed.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;

/// Finds a package in an environment, or in an unpacked archive of uv's cache.
pub fn distribution(environment: &Path, name: &str) -> Option<InstalledPackage> {
    described(&find_info(environment, name)?).map(|(_, found)| found)
}

fn find_info(environment: &Path, name: &str) -> Option<PathBuf> {
    let wanted = normal(name);
    let is_wanted = |info: &PathBuf| {
        let stem = info.file_stem().and_then(|stem| stem.to_str());
        stem.and_then(|stem| stem.split('-').next()).is_some_and(|name| normal(name) == wanted)
    };
    infos(environment).into_iter().find(is_wanted)
}

/// Returns the metadata folders of all packages in an environment.
pub fn infos(environment: &Path) -> Vec<PathBuf> {
    let versions = folders(&environment.join("lib"));
    let sites = versions.iter().map(|version| version.join("site-packages"));
    let sites =
        sites.chain([environment.join("Lib").join("site-packages"), environment.to_owned()]);
    let is_info = |path: &PathBuf| path.extension().is_some_and(|end| end == "dist-info");
    sites.flat_map(|site| folders(&site)).filter(is_info).collect()
}

/// Returns the name of a package and its version, from its metadata folder.
pub fn described(info: &Path) -> Option<(String, InstalledPackage)> {
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

/// Normalizes a package name (PEP 503).
pub fn normal(name: &str) -> String {
    let parts: Vec<&str> = name.split(['-', '_', '.']).filter(|part| !part.is_empty()).collect();
    parts.join("-").to_ascii_lowercase()
}

/// Returns the first file of a package that differs from its `RECORD`, or is missing.
pub(crate) fn changed_file(environment: &Path, name: &str) -> Option<PathBuf> {
    let Some(info) = find_info(environment, name) else { return Some(environment.to_owned()) };
    let record = info.join("RECORD");
    let (Some(site), Some(text)) = (info.parent(), read(&record)) else { return Some(record) };
    text.lines().filter(|line| !line.trim().is_empty()).find_map(|line| {
        let mut fields = line.trim().rsplitn(3, ',');
        let (_size, hash) = (fields.next()?, fields.next()?);
        let path = fields.next()?.trim_matches('"').replace("\"\"", "\"");
        // Files without a hash are bytecode and `RECORD` itself.
        let hash = hash.strip_prefix("sha256=")?;
        let file = site.join(path);
        let is_same = read_input(&file, MAX_FILE_BYTES)
            .is_ok_and(|bytes| URL_SAFE_NO_PAD.encode(Sha256::digest(bytes)) == hash);
        (!is_same).then_some(file)
    })
}
