//! The `sharedStore` section: the Redis store that several workbenches share.

use crate::syntax::document::Node;
use crate::syntax::objects::read_closed_object;
use crate::syntax::paths::{PathResolver, resolve_path};
use crate::syntax::reader::{ConfigReader, Located};
use crate::syntax::section::{ConfigSection, FromNode, SectionSpec, keys};
use mcp_workbench_settings::{DEFAULT_PREFIX, SharedStoreConfig, StoreUrl};

keys! {
    /// Redis or Valkey store for several workbenches over HTTP, so that each can continue the
    /// sessions of the others. Read only at startup.
    #[schemars(rename = "SharedStore", deny_unknown_fields)]
    pub(crate) struct RawSharedStore {
        /// URL of the store, with `rediss://` for TLS. `--shared-store` overrides it.
        #[schemars(required, extend("examples" = ["rediss://workbench:${REDIS_PASSWORD}@redis.internal:6379/0"]))]
        "url" as pub(crate) url: Located<String>,

        /// Prefix of all keys in the store, so that other programs can use the same store.
        #[schemars(extend("default" = DEFAULT_PREFIX))]
        "prefix" as pub(crate) prefix: Located<String>,

        /// CA certificates in PEM, for TLS. Default: those of the system.
        #[schemars(extend("examples" = ["tls/redis-ca.crt"]))]
        "ca" as pub(crate) ca: Located<String>,

        /// Key files, each with 32 bytes, raw or in base64. They encrypt the records in the store.
        /// Without keys, logins, tool lists and remainders of truncated results stay on each
        /// machine. The first key encrypts and all decrypt, so that keys can be rotated.
        #[schemars(extend("examples" = [["/run/secrets/workbench-key"]]))]
        "keys" as pub(crate) keys: Vec<Located<String>>,
    }
}

impl FromNode for RawSharedStore {
    const SECTION: Option<&'static SectionSpec> = Some(Self::SPEC);

    fn from_node(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Self> {
        let shared = read_closed_object(node, reader, Self::read_keys)?;
        if shared.url.is_none() && !reader.has_error_under(&node.location, "url") {
            let hint = "add the `url` of the store, such as `redis://127.0.0.1:6379`";
            reader.report_error(&node.location, "expected a `url`", Some(hint.to_owned()));
        }
        Some(shared)
    }
}

impl RawSharedStore {
    pub(crate) fn checked(
        self,
        paths: &PathResolver<'_>,
        reader: &mut ConfigReader<'_>,
    ) -> SharedStoreConfig {
        let Self { url, prefix, ca, keys } = self;
        let url = url.and_then(|Located { value, location: spot }| {
            StoreUrl::parse(&value).map_err(|wrong| reader.report_error(&spot, wrong, None)).ok()
        });
        let prefix = prefix.and_then(|Located { value, location: spot }| {
            if SharedStoreConfig::is_prefix(&value) {
                return Some(value);
            }
            reader.report_error(&spot, "expected 1 to 64 visible ASCII characters", None);
            None
        });
        let ca = ca.and_then(|Located { value, location: spot }| {
            if value.trim().is_empty() {
                reader.report_error(&spot, "expected the path of a PEM file", None);
                return None;
            }
            Some(resolve_path(value.trim(), paths))
        });
        let mut files = Vec::new();
        for (at, Located { value, location: spot }) in keys.into_iter().flatten().enumerate() {
            if value.trim().is_empty() {
                reader.report_error(&spot, "expected the path of a key file", None);
            } else if at == SharedStoreConfig::MAX_KEYS {
                let hint = "remove keys that no stored data is encrypted with";
                reader.report_error(&spot, "expected at most 8 keys", Some(hint.to_owned()));
            } else if at < SharedStoreConfig::MAX_KEYS {
                files.push(resolve_path(value.trim(), paths));
            }
        }
        let prefix = prefix.unwrap_or_else(|| DEFAULT_PREFIX.to_owned());
        SharedStoreConfig { url, prefix, ca, keys: files }
    }
}
