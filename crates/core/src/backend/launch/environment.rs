//! The part of an environment that a child gets.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;

use crate::settings::StdioLaunch;

/// The variables of ours that every child gets, where they are set: what programs need to find
/// their way, and nothing that could be a secret.
const PASSED_ON: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "TEMP",
    "TMP",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "SYSTEMROOT",
    "SYSTEMDRIVE",
    "USERPROFILE",
    "APPDATA",
    "LOCALAPPDATA",
    "PROGRAMFILES",
    "PATHEXT",
    "COMSPEC",
    "WINDIR",
];

/// The environment of whoever wants a server, of which its process gets a part.
#[derive(Default, PartialEq, Eq)]
pub struct ChildEnvironment {
    /// In an order that does not depend on where they come from.
    all: BTreeMap<OsString, OsString>,
}

impl fmt::Debug for ChildEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Any value may be a secret.
        f.debug_set().entries(self.all.keys()).finish()
    }
}

impl ChildEnvironment {
    /// Takes the whole environment; what of it a child gets depends on its launch.
    pub fn new(all: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self { all: all.into_iter().collect() }
    }

    pub(crate) fn for_launch<'a>(
        &'a self,
        launch: &'a StdioLaunch,
    ) -> impl Iterator<Item = (&'a OsString, &'a OsString)> {
        let is_passed_on = |key: &OsString| {
            PASSED_ON
                .iter()
                .any(|name| key.to_str().is_some_and(|key| key.eq_ignore_ascii_case(name)))
        };
        self.all.iter().filter(move |(key, _)| {
            let is_withheld = key.to_str().is_some_and(|key| launch.withheld.contains(key));
            !is_withheld && (launch.inherit_env || is_passed_on(key))
        })
    }
}
