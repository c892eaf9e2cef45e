//! Packages in the lock: which version and bytes of one a server was run from.
//!
//! Machines know different things of the same package. So a lock that is written on one that knows less keeps what
//! another knew, and what is not known is no difference.

use std::collections::BTreeMap;

use serde_json::json;

use crate::cli::lock::names::names;
use crate::cli::packages::{Differs, Identity, identify};
use crate::config::env::ProcessEnv;
use crate::raw::Raw;
use crate::settings::{Config, Launch, LockedPackage, LockedServer};

/// The packages of all servers that are run from one, by their names in the lock.
pub(super) fn all(config: &Config) -> BTreeMap<String, Identity> {
    let identity = |(at, name): (crate::name::ServerRef, String)| {
        let server = config.toolbox(at.toolbox.as_str())?.server(at.server.as_str())?;
        let Launch::Stdio(launch) = &server.launch else { return None };
        Some((name, identify(launch, &ProcessEnv)?))
    };
    names(config).into_iter().filter_map(identity).collect()
}

/// Returns the package to be locked: what is known here of it, and of the same one what was known where
/// the lock was written before.
pub(super) fn to_lock(
    before: Option<&LockedServer>,
    launch: &str,
    now: Option<&Identity>,
) -> Option<LockedPackage> {
    let is_same_launch = |server: &&LockedServer| *server.launch == *launch;
    let before = before.filter(is_same_launch).and_then(|server| server.package.as_ref());
    let Some(now) = now else { return before.cloned() };
    let mut package = of(now);
    if let Some(before) = before {
        let is_known = now.version.is_some() || now.integrity.is_some();
        match now.differs(before) {
            Some(Differs::Package | Differs::Version | Differs::Bytes) => {}
            None if !is_known => package = before.clone(),
            None => {
                package.version = package.version.or_else(|| before.version.clone());
                if package.integrity.is_none() || !now.is_comparable(before) {
                    package.integrity.clone_from(&before.integrity);
                }
            }
        }
    }
    (package.version.is_some() || package.integrity.is_some()).then_some(package)
}

/// Returns a package as the lock would have it if nothing else were known of it.
fn of(identity: &Identity) -> LockedPackage {
    LockedPackage {
        ecosystem: identity.ecosystem,
        name: identity.name.clone(),
        version: identity.version.clone(),
        integrity: identity.integrity.clone(),
    }
}

/// The words for a package that is not as the lock has it.
pub(super) enum Told {
    /// Another version is a note: it may say the same, and what it says is compared.
    Note(String),
    /// Other bytes of the same version are drift: in words, and as JSON before and now.
    Drift(String, [String; 2]),
}

/// Compares the package that would start with the one that was recorded.
pub(super) fn compared(server: &str, then: &LockedPackage, now: &Identity) -> Option<Told> {
    let name = &then.name;
    Some(match now.differs(then)? {
        Differs::Package => Told::Note(format!(
            "`{server}` would start from `{}`, and `{name}` was recorded",
            now.name
        )),
        Differs::Version => Told::Note(format!(
            "`{server}` would start {}, and {} was recorded",
            version(name, now.version.as_deref(), now.integrity.as_deref()),
            version(name, then.version.as_deref(), then.integrity.as_deref()),
        )),
        Differs::Bytes => {
            let version = then.version.as_deref().unwrap_or_default();
            let words = format!("package `{name}` {version} has other bytes than were recorded");
            Told::Drift(words, [lines(then), lines(&of(now))])
        }
    })
}

fn version(name: &str, version: Option<&str>, integrity: Option<&str>) -> String {
    let words = version.map(|version| format!(" {version}"));
    let words = words.or_else(|| integrity.map(|digest| format!("@{digest}")));
    format!("`{name}`{}", words.unwrap_or_default())
}

/// Returns a package as JSON, a member a line.
fn lines(package: &LockedPackage) -> String {
    let LockedPackage { ecosystem: _, name, version, integrity } = package;
    let members = json!({"name": name, "version": version, "integrity": integrity});
    Raw::encode(&members).on_lines(0, |_| false).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::settings::{Ecosystem, Wanted};

    fn identity(version: Option<&str>, integrity: Option<&str>) -> Identity {
        Identity {
            ecosystem: Ecosystem::Npm,
            name: "b".to_owned(),
            wanted: Some(Wanted::Newest),
            version: version.map(str::to_owned),
            integrity: integrity.map(str::to_owned),
            evidence: None,
            unknown: None,
            is_loose: true,
        }
    }

    fn locked(version: Option<&str>, integrity: Option<&str>) -> LockedServer {
        let package = LockedPackage {
            ecosystem: Ecosystem::Npm,
            name: "b".to_owned(),
            version: version.map(str::to_owned),
            integrity: integrity.map(str::to_owned),
        };
        LockedServer { launch: "{}".into(), package: Some(package), ..LockedServer::default() }
    }

    type Known<'a> = (Option<&'a str>, Option<&'a str>);

    #[test]
    fn a_machine_that_knows_less_takes_nothing_away() {
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
    fn other_bytes_are_drift_and_another_version_is_a_note() {
        let then = locked(Some("1"), Some("sha512-a")).package.unwrap();
        let told = |version, integrity| {
            compared("s", &then, &identity(version, integrity)).map(|told| match told {
                Told::Note(words) => ("note", words),
                Told::Drift(words, _) => ("drift", words),
            })
        };
        assert_eq!(told(Some("1"), Some("sha512-a")), None);
        assert_eq!(told(None, None), None);
        let note = "`s` would start `b` 2, and `b` 1 was recorded".to_owned();
        assert_eq!(told(Some("2"), Some("sha512-b")), Some(("note", note)));
        let drift = "package `b` 1 has other bytes than were recorded".to_owned();
        assert_eq!(told(Some("1"), Some("sha512-b")), Some(("drift", drift)));
    }
}
