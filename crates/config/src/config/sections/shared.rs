//! The `shared` section: the Redis store that several workbenches share.

use crate::config::syntax::document::Node;
use crate::config::syntax::objects::read_closed_object;
use crate::config::syntax::paths::{PathResolver, resolve_path};
use crate::config::syntax::reader::{ConfigReader, Located};
use crate::config::syntax::section::{ConfigSection, FromNode, SectionSpec, keys};
use crate::settings::{DEFAULT_PREFIX, SharedConfig, StoreUrl};

keys! {
    /// A store on Redis or Valkey, in which several workbenches over HTTP keep what another one needs to go on
    /// with their agents' sessions. It is settled at the start.
    #[schemars(rename = "Shared", deny_unknown_fields)]
    pub(crate) struct RawShared {
        /// Its address, with `rediss://` for TLS.
        #[schemars(required, extend("examples" = ["rediss://workbench:${REDIS_PASSWORD}@redis.internal:6379/0"]))]
        "url" as pub(crate) url: Located<String>,

        /// The beginning of every key in it, so that others can use it too.
        #[schemars(extend("default" = DEFAULT_PREFIX))]
        "prefix" as pub(crate) prefix: Located<String>,

        /// A file of CAs, in PEM, one of which its certificate is of; those of the system where there is none.
        #[schemars(extend("examples" = ["tls/redis-ca.crt"]))]
        "ca" as pub(crate) ca: Located<String>,

        /// Files with a key of 32 bytes each, as they are or in base64, with which logins at servers and what servers
        /// list are sealed, so that they can be in the store; where there is none, they stay in files of each
        /// workbench. The first one seals and all open, so that a key can be replaced.
        #[schemars(extend("examples" = [["/run/secrets/workbench-key"]]))]
        "keys" as pub(crate) keys: Vec<Located<String>>,
    }
}

impl FromNode for RawShared {
    const SECTION: Option<&'static SectionSpec> = Some(Self::SPEC);

    fn from_node(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Self> {
        let shared = read_closed_object(node, reader, Self::read_keys)?;
        if shared.url.is_none() && !reader.has_error_under(&node.location, "url") {
            let hint = "write the `url` of the store, such as `redis://127.0.0.1:6379`";
            reader.report_error(&node.location, "expected a `url`", Some(hint.to_owned()));
        }
        Some(shared)
    }
}

impl RawShared {
    pub(crate) fn checked(
        self,
        paths: &PathResolver<'_>,
        reader: &mut ConfigReader<'_>,
    ) -> SharedConfig {
        let Self { url, prefix, ca, keys } = self;
        let url = url.and_then(|Located { value, location: spot }| {
            StoreUrl::parse(&value).map_err(|wrong| reader.report_error(&spot, wrong, None)).ok()
        });
        let prefix = prefix.and_then(|Located { value, location: spot }| {
            if SharedConfig::is_prefix(&value) {
                return Some(value);
            }
            reader.report_error(&spot, "expected 1 to 64 visible ASCII characters", None);
            None
        });
        let ca = ca.and_then(|Located { value, location: spot }| {
            if value.trim().is_empty() {
                reader.report_error(&spot, "expected the path of a file in PEM", None);
                return None;
            }
            Some(resolve_path(value.trim(), paths))
        });
        let mut files = Vec::new();
        for (at, Located { value, location: spot }) in keys.into_iter().flatten().enumerate() {
            if value.trim().is_empty() {
                reader.report_error(&spot, "expected the path of a file with a key", None);
            } else if at == SharedConfig::MAX_KEYS {
                let hint = "take out those that nothing is sealed with any more";
                reader.report_error(&spot, "expected 8 keys at most", Some(hint.to_owned()));
            } else if at < SharedConfig::MAX_KEYS {
                files.push(resolve_path(value.trim(), paths));
            }
        }
        let prefix = prefix.unwrap_or_else(|| DEFAULT_PREFIX.to_owned());
        SharedConfig { url, prefix, ca, keys: files }
    }
}
