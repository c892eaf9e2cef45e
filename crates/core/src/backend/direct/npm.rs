//! Finds the program that `npx` would run, as `libnpmexec` of npm 7 and later does.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

use crate::backend::ReviewedPackage;
use crate::backend::direct::records::{DirectRecords, RecordKey};
use crate::backend::direct::{CachedProgram, LaunchVariables, check_program};
use crate::backend::installed_package::npm::{
    default_executable, installed, is_file_name, npx_folder, requested_specs,
};
use crate::backend::installed_package::{InstalledPackage, read};
use crate::backend::launch::find_program;
use mcp_workbench_settings::{Package, RunnerCommand, VersionRequest};

/// Settings of npm without an effect on which cached program `npx` runs, or on how.
const HARMLESS_SETTINGS: &[&str] = &[
    "access",
    "always-auth",
    "audit",
    "audit-level",
    "auth-type",
    "before",
    "ca",
    "cafile",
    "cert",
    "color",
    "commit-hooks",
    "email",
    "engine-strict",
    "fetch-retries",
    "fetch-retry-factor",
    "fetch-retry-maxtimeout",
    "fetch-retry-mintimeout",
    "fetch-timeout",
    "foreground-scripts",
    "fund",
    "heading",
    "https-proxy",
    "ignore-scripts",
    "init-author-email",
    "init-author-name",
    "init-author-url",
    "init-license",
    "init-version",
    "key",
    "legacy-peer-deps",
    "lockfile-version",
    "omit-lockfile-registry-resolved",
    "local-address",
    "loglevel",
    "logs-max",
    "maxsockets",
    "message",
    "min-release-age",
    "noproxy",
    "offline",
    "package-lock",
    "prefer-offline",
    "prefer-online",
    "progress",
    "proxy",
    "registry",
    "save",
    "save-exact",
    "save-prefix",
    "sign-git-commit",
    "sign-git-tag",
    "strict-ssl",
    "tag-version-prefix",
    "timing",
    "unicode",
    "update-notifier",
    "user-agent",
    "yes",
];

type Found = Result<CachedProgram, String>;

/// Returns the key of the command's record, and the cached program or why there is none.
pub(super) fn find(
    command: &RunnerCommand,
    variables: &LaunchVariables<'_>,
    reviewed: Option<&ReviewedPackage>,
    records: &DirectRecords,
) -> (Option<RecordKey>, Found) {
    let settings = match NpmSettings::read(variables) {
        Ok(settings) => settings,
        Err(reason) => return (None, Err(reason)),
    };
    let Package { spec, .. } = &command.package;
    let key = RecordKey::new(&("npm", &variables.launch.command, spec, &settings.cache));
    let newest = records.load(&key).and_then(|record| record.found);
    let found = find_with(command, variables, &settings, (reviewed, newest));
    (Some(key), found)
}

fn find_with(
    command: &RunnerCommand,
    variables: &LaunchVariables<'_>,
    settings: &NpmSettings,
    (reviewed, newest): (Option<&ReviewedPackage>, Option<String>),
) -> Found {
    let RunnerCommand { package, executable, .. } = command;
    if let Some(place) = preferred_copy(command, variables, settings) {
        return Err(format!("`npx` prefers the copy in `{}`", place.display()));
    }
    let locked = reviewed.and_then(|reviewed| reviewed.package.version.clone());
    let mut specs = vec![package.spec.clone()];
    if !command.is_pinned() {
        let others = [locked.clone(), newest].into_iter().flatten();
        specs.extend(others.map(|version| package.pinned(&version)));
    }
    let mut reason = None;
    let mut copies = Vec::new();
    for spec in specs {
        match CachedCopy::find(&settings.cache, &spec, package) {
            Ok(copy) => copies.push(copy),
            Err(why) => reason = reason.or(Some(why)),
        }
    }
    let is_locked = |copy: &CachedCopy| locked.as_ref() == Some(&copy.package.version);
    let best = copies.into_iter().max_by_key(|copy| (is_locked(copy), copy.changed));
    let Some(CachedCopy { folder, package: found, .. }) = best else {
        return Err(reason.unwrap_or_else(|| format!("`{}` isn't cached", package.spec)));
    };
    let named = executable.clone().or_else(|| default_executable(&folder, &package.name));
    let Some(program) = named.filter(|name| is_file_name(name)) else {
        return Err(format!("`{}` doesn't name its program", package.name));
    };
    let modules = folder.join("node_modules");
    let path = modules.join(".bin").join(program);
    check_program(&path)?;
    // A link to a file outside could have been planted.
    let is_inside = path.canonicalize().ok().zip(modules.canonicalize().ok());
    if !is_inside.is_some_and(|(file, modules)| file.starts_with(modules)) {
        return Err(format!("`{}` leads out of its package", path.display()));
    }
    Ok(CachedProgram { path, package: found, root: folder, cache_lock: None })
}

/// A folder of npx's cache with the package.
struct CachedCopy {
    folder: PathBuf,
    package: InstalledPackage,
    /// When `npx` last changed it.
    changed: SystemTime,
}

impl CachedCopy {
    fn find(cache: &Path, spec: &str, package: &Package) -> Result<Self, String> {
        let folder = npx_folder(cache, spec);
        // Written when the installation is complete.
        if requested_specs(&folder).as_deref() != Some(&[spec.to_owned()]) {
            return Err(format!("`{spec}` isn't in the cache of `npx`"));
        }
        if folder.join("concurrency.lock").exists() {
            return Err("`npx` is changing its cache".to_owned());
        }
        let found = installed(&folder, &package.name);
        let found = found.ok_or_else(|| format!("the cached copy of `{spec}` is incomplete"))?;
        if let VersionRequest::Version(version) = &package.requested
            && *version != found.version
        {
            return Err(format!("version {} of `{spec}` is cached", found.version));
        }
        let changed = folder.join("package.json").metadata().and_then(|file| file.modified());
        let changed = changed.map_err(|_| format!("the cached copy of `{spec}` is incomplete"))?;
        Ok(Self { folder, package: found, changed })
    }
}

/// Returns a project or global copy of the package, which `npx` prefers to its cache.
fn preferred_copy(
    command: &RunnerCommand,
    variables: &LaunchVariables<'_>,
    settings: &NpmSettings,
) -> Option<PathBuf> {
    let Package { name, spec, .. } = &command.package;
    let folders = variables.launch.cwd.ancestors();
    let local = folders.flat_map(|folder| {
        let modules = folder.join("node_modules");
        [modules.join(name), modules.join(".bin").join(spec)]
    });
    let global = settings.prefix.join("lib/node_modules").join(name);
    let global_program = settings.prefix.join("bin").join(spec);
    let mut copies = local.chain([global, global_program]);
    if let Some(copy) = copies.find(|copy| copy.symlink_metadata().is_ok()) {
        return Some(copy);
    }
    let project = &settings.project;
    let manifest = project.join("package.json");
    let is_project = read(&manifest).is_some_and(|text| {
        let json: Value = serde_json::from_str(&text).unwrap_or_default();
        json.get("name").and_then(Value::as_str) == Some(name.as_str())
            || json.get("bin").is_some_and(|bin| bin.get(spec).is_some())
    });
    if is_project {
        return Some(manifest);
    }
    // A dependency of a dependency counts, too.
    let lock = project.join("node_modules/.package-lock.json");
    let key = format!("node_modules/{name}\"");
    read(&lock).is_some_and(|text| text.contains(&key)).then_some(lock)
}

/// The settings of npm that decide which program `npx` runs.
struct NpmSettings {
    cache: PathBuf,
    /// The folder of global packages.
    prefix: PathBuf,
    /// The folder of the project that `npx` runs in.
    project: PathBuf,
}

impl NpmSettings {
    fn read(variables: &LaunchVariables<'_>) -> Result<Self, String> {
        let launch = variables.launch;
        let path = variables.environment.path_for(launch);
        let real = |program: &str| {
            let file = find_program(program, &launch.cwd, &path).ok()?;
            file.canonicalize().ok()
        };
        let npx = real(&launch.command).ok_or_else(|| "`npx` wasn't found".to_owned())?;
        // Version managers have an `npx` of their own, which first selects a version of Node.
        if !npx.ends_with("npm/bin/npx-cli.js") {
            return Err(format!("`{}` isn't npm's `npx`", npx.display()));
        }
        let npm = npx.ancestors().nth(2).map(Path::to_owned).unwrap_or_default();
        let node = real("node").ok_or_else(|| "`node` wasn't found".to_owned())?;
        let home = variables.home().ok_or_else(|| "`HOME` isn't set".to_owned())?;
        let project = launch.cwd.ancestors().find(|folder| {
            folder.join("package.json").exists() || folder.join("node_modules").exists()
        });
        let project = project.unwrap_or(&launch.cwd).to_owned();
        if variables.get("PREFIX").is_some() {
            return Err("the variable `PREFIX` is set".to_owned());
        }
        let mut own = OwnSettings::default();
        for (name, value) in variables.all() {
            let lower = name.to_ascii_lowercase();
            if let Some(setting) = lower.strip_prefix("npm_config_") {
                own.add(&setting.replace('_', "-"), &value, &format!("the variable `{name}`"))?;
            }
        }
        let user = home.join(".npmrc");
        let files = [project.join(".npmrc"), user, npm.join("npmrc")];
        for file in files {
            own.add_file(&file)?;
        }
        let prefix = match &own.prefix {
            Some(prefix) => prefix.clone(),
            None => node.ancestors().nth(2).map(Path::to_owned).unwrap_or_default(),
        };
        own.add_file(&prefix.join("etc/npmrc"))?;
        let cache = own.cache.unwrap_or_else(|| home.join(".npm"));
        Ok(Self { cache, prefix, project })
    }
}

/// Settings from variables and files. The first value of a setting wins.
#[derive(Default)]
struct OwnSettings {
    cache: Option<PathBuf>,
    prefix: Option<PathBuf>,
}

impl OwnSettings {
    fn add(&mut self, name: &str, value: &str, place: &str) -> Result<(), String> {
        let folder = match name {
            "cache" => &mut self.cache,
            "prefix" => &mut self.prefix,
            name if HARMLESS_SETTINGS.contains(&name) => return Ok(()),
            // Registries and credentials.
            name if name.starts_with(['@', '/', '_']) => return Ok(()),
            name => return Err(format!("{place} sets `{name}`")),
        };
        let path = PathBuf::from(value);
        if !path.is_absolute() || value.contains("${") {
            return Err(format!("{place} sets `{name}` to a relative folder"));
        }
        folder.get_or_insert(path);
        Ok(())
    }

    /// Adds the settings of an `.npmrc`, an INI file without sections.
    fn add_file(&mut self, file: &Path) -> Result<(), String> {
        let place = format!("`{}`", file.display());
        if fs::symlink_metadata(file).is_err() {
            return Ok(());
        }
        let text = read(file).ok_or_else(|| format!("{place} can't be read"))?;
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with([';', '#']) {
                continue;
            }
            let (name, value) = line.split_once('=').unwrap_or((line, "true"));
            let name = name.trim().trim_end_matches("[]");
            self.add(name, value.trim().trim_matches(['"', '\'']), &place)?;
        }
        Ok(())
    }
}
