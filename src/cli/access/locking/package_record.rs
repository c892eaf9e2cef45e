//! Records the package that a server runs from, with its version and digest.
//!
//! Machines know different facts about a package. Writing the lock keeps recorded facts that this
//! machine lacks, and unknown facts are not compared.

use std::collections::BTreeMap;

use serde_json::json;

use crate::cli::access::locking::server_names::names;
use crate::cli::servers::package_identity::{PackageDifference, PackageIdentity, identify};
use mcp_workbench_config::env::ProcessEnv;
use mcp_workbench_settings::{Config, Launch, LockedPackage, LockedServer};
use mcp_workbench_wire::json::RawJson;
use mcp_workbench_wire::json::definition_text::to_pretty_string;

pub(crate) fn identify_packages(config: &Config) -> BTreeMap<String, PackageIdentity> {
    let identity = |(at, name): (mcp_workbench_names::ServerRef, String)| {
        let server = config.toolbox(at.toolbox.as_str())?.server(at.server.as_str())?;
        let Launch::Stdio(launch) = &server.launch else { return None };
        Some((name, identify(launch, &ProcessEnv)?))
    };
    names(config).into_iter().filter_map(identity).collect()
}

/// Merges the facts known on this machine with those recorded for the same package and launch.
pub(crate) fn to_lock(
    before: Option<&LockedServer>,
    launch: &str,
    now: Option<&PackageIdentity>,
) -> Option<LockedPackage> {
    let is_same_launch = |server: &&LockedServer| *server.launch == *launch;
    let before = before.filter(is_same_launch).and_then(|server| server.package.as_ref());
    let Some(now) = now else { return before.cloned() };
    let mut package = locked_package(now);
    if let Some(before) = before {
        let is_known = now.version.is_some() || now.integrity.is_some();
        match now.compare(before) {
            Some(
                PackageDifference::Package | PackageDifference::Version | PackageDifference::Bytes,
            ) => {}
            None if !is_known => package = before.clone(),
            None => {
                package.version = package.version.or_else(|| before.version.clone());
                if package.integrity.is_none() || !now.is_comparable(before) {
                    package.integrity.clone_from(&before.integrity);
                }
                package.contents = package.contents.or_else(|| before.contents.clone());
            }
        }
    }
    (package.version.is_some() || package.integrity.is_some()).then_some(package)
}

fn locked_package(identity: &PackageIdentity) -> LockedPackage {
    LockedPackage {
        ecosystem: identity.ecosystem,
        name: identity.name.clone(),
        version: identity.version.clone(),
        integrity: identity.integrity.clone(),
        contents: identity.contents.clone(),
    }
}

pub(crate) enum PackageChange {
    /// Another package or version. Only a note, because the definitions are compared separately.
    Note(String),
    /// Other bytes of the same version: a message, and the package as JSON before and now.
    Drift(String, [String; 2]),
}

pub(crate) fn compare_package(
    server: &str,
    then: &LockedPackage,
    now: &PackageIdentity,
) -> Option<PackageChange> {
    let name = &then.name;
    Some(match now.compare(then)? {
        PackageDifference::Package => PackageChange::Note(format!(
            "`{server}` would run package `{}`; the lock has `{name}`",
            now.name
        )),
        PackageDifference::Version => PackageChange::Note(format!(
            "`{server}` would run {}; the lock has {}",
            version(name, now.version.as_deref(), now.integrity.as_deref()),
            version(name, then.version.as_deref(), then.integrity.as_deref()),
        )),
        PackageDifference::Bytes => {
            let version = then.version.as_deref().unwrap_or_default();
            let words =
                format!("package `{name}` {version} has a different digest than in the lock");
            PackageChange::Drift(words, [lines(then), lines(&locked_package(now))])
        }
    })
}

fn version(name: &str, version: Option<&str>, integrity: Option<&str>) -> String {
    let words = version.map(|version| format!(" {version}"));
    let words = words.or_else(|| integrity.map(|digest| format!("@{digest}")));
    format!("`{name}`{}", words.unwrap_or_default())
}

fn lines(package: &LockedPackage) -> String {
    let LockedPackage { ecosystem: _, name, version, integrity, contents } = package;
    let mut members = json!({"name": name, "version": version, "integrity": integrity});
    if let Some(contents) = contents {
        members["contents"] = contents.as_str().into();
    }
    to_pretty_string(&RawJson::encode(&members), 0, |_| false).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use mcp_workbench_settings::{Ecosystem, VersionRequest};

    fn identity(version: Option<&str>, integrity: Option<&str>) -> PackageIdentity {
        PackageIdentity {
            ecosystem: Ecosystem::Npm,
            name: "b".to_owned(),
            requested: Some(VersionRequest::Latest),
            version: version.map(str::to_owned),
            integrity: integrity.map(str::to_owned),
            contents: None,
            evidence: None,
            unknown_reason: None,
            is_unpinned: true,
        }
    }

    fn locked(version: Option<&str>, integrity: Option<&str>) -> LockedServer {
        let package = LockedPackage {
            ecosystem: Ecosystem::Npm,
            name: "b".to_owned(),
            version: version.map(str::to_owned),
            integrity: integrity.map(str::to_owned),
            contents: None,
        };
        LockedServer { launch: "{}".into(), package: Some(package), ..LockedServer::default() }
    }

    type Known<'a> = (Option<&'a str>, Option<&'a str>);

    #[test]
    fn keeps_recorded_package_facts_that_this_machine_lacks() {
        let whole = (Some("1"), Some("sha512-a"));
        let cases: [(Known<'_>, Known<'_>, Known<'_>); 8] = [
            ((None, None), whole, whole),
            ((Some("1"), None), whole, whole),
            ((Some("1"), Some("record-sha256:a")), whole, whole),
            (whole, (Some("1"), None), whole),
            (whole, whole, whole),
            ((Some("1"), Some("sha512-b")), whole, (Some("1"), Some("sha512-b"))),
            ((Some("2"), None), whole, (Some("2"), None)),
            ((Some("2"), Some("sha512-b")), whole, (Some("2"), Some("sha512-b"))),
        ];
        for (now, before, expected) in cases {
            let (identity, before) = (identity(now.0, now.1), locked(before.0, before.1));
            let found = to_lock(Some(&before), "{}", Some(&identity)).unwrap();
            let found = (found.version.as_deref(), found.integrity.as_deref());
            assert_eq!(found, expected, "{now:?}");
        }
        let before = locked(whole.0, whole.1);
        assert_eq!(to_lock(Some(&before), "{}", None), before.package);
        assert_eq!(
            to_lock(Some(&before), r#"{"command":"c"}"#, None),
            None,
            "it is another launch"
        );
        assert_eq!(to_lock(None, "{}", Some(&identity(None, None))), None);
    }

    #[test]
    fn changed_digest_is_drift_and_changed_version_is_a_note() {
        let then = locked(Some("1"), Some("sha512-a")).package.unwrap();
        let told = |version, integrity| {
            compare_package("s", &then, &identity(version, integrity)).map(|told| match told {
                PackageChange::Note(words) => ("note", words),
                PackageChange::Drift(words, _) => ("drift", words),
            })
        };
        assert_eq!(told(Some("1"), Some("sha512-a")), None);
        assert_eq!(told(None, None), None);
        let note = "`s` would run `b` 2; the lock has `b` 1".to_owned();
        assert_eq!(told(Some("2"), Some("sha512-b")), Some(("note", note)));
        let drift = "package `b` 1 has a different digest than in the lock".to_owned();
        assert_eq!(told(Some("1"), Some("sha512-b")), Some(("drift", drift)));
    }
}
