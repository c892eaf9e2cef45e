//! npm packages, identified from the lock file in each `node_modules`.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use crate::backend::installed_package::{InstalledPackage, TreeDigest, read};

/// Returns the package `name` below `folder`, from the metadata that npm writes.
pub fn installed(folder: &Path, name: &str) -> Option<InstalledPackage> {
    let modules = folder.join("node_modules");
    let manifest = modules.join(name).join("package.json");
    let text = read(&manifest)?;
    let json: Value = serde_json::from_str(&text).ok()?;
    let version = json.get("version")?.as_str()?.to_owned();
    let locks = [modules.join(".package-lock.json"), folder.join("package-lock.json")];
    let locked = locks.iter().find_map(|lock| Some((locked(lock, name, &version)?, lock.clone())));
    let (integrity, evidence) =
        locked.map_or((None, manifest), |(digest, lock)| (Some(digest), lock));
    Some(InstalledPackage { version, integrity, evidence })
}

fn locked(lock: &Path, name: &str, version: &str) -> Option<String> {
    let json: Value = serde_json::from_str(&read(lock)?).ok()?;
    let entry = json.get("packages")?.get(format!("node_modules/{name}"))?;
    let is_same = entry.get("version").and_then(Value::as_str) == Some(version);
    is_same.then(|| entry.get("integrity")?.as_str().map(str::to_owned)).flatten()
}

/// Returns a digest over the files of an installed package, which is the same on every machine.
/// `None` if install scripts can add files, or if the package is too large.
pub fn contents_digest(folder: &Path, name: &str) -> Option<String> {
    let root = folder.join("node_modules").join(name);
    let manifest: Value = serde_json::from_str(&read(&root.join("package.json"))?).ok()?;
    let scripts = ["preinstall", "install", "postinstall"];
    let has_script = |name| manifest.pointer("/scripts").and_then(|all| all.get(name)).is_some();
    if scripts.into_iter().any(has_script) || root.join("binding.gyp").exists() {
        return None;
    }
    let mut digest = TreeDigest::default();
    digest.add(&root, Path::new(""))?;
    Some(digest.finish())
}

/// Returns the name of the program that `npx` runs for a package, from its manifest.
pub(crate) fn default_executable(folder: &Path, name: &str) -> Option<String> {
    let manifest = folder.join("node_modules").join(name).join("package.json");
    let manifest: Value = serde_json::from_str(&read(&manifest)?).ok()?;
    let own = name.rsplit('/').next()?;
    match manifest.get("bin")? {
        Value::String(_) => Some(own.to_owned()),
        Value::Object(all) => {
            let (first, file) = all.iter().next()?;
            // Several names of one program aren't ambiguous.
            let is_one = all.values().all(|other| other == file);
            let key = if is_one { first } else { all.get_key_value(own)?.0 };
            is_file_name(key).then(|| key.clone())
        }
        _ => None,
    }
}

pub(crate) fn is_file_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
}

/// Returns the specs that `npx` installed into a folder of its cache. It writes them last.
pub(crate) fn requested_specs(folder: &Path) -> Option<Vec<String>> {
    let manifest: Value = serde_json::from_str(&read(&folder.join("package.json"))?).ok()?;
    let specs = manifest.pointer("/_npx/packages")?.as_array()?;
    specs.iter().map(|spec| spec.as_str().map(str::to_owned)).collect()
}

/// Returns the folder of `npx` for one spec, as `libnpmexec` names it.
pub(crate) fn npx_folder(cache: &Path, spec: &str) -> PathBuf {
    use sha2::{Digest, Sha512};

    let name = hex::encode(Sha512::digest(spec.as_bytes()));
    cache.join("_npx").join(&name[..16])
}
