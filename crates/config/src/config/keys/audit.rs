//! The record of what happens (`audit`), and the place where it is told besides (`telemetry`).

use url::Url;

use crate::config::keys::numbers;
use crate::config::syntax::checks::number;
use crate::config::syntax::document::Node;
use crate::config::syntax::entries::object;
use crate::config::syntax::places::{Places, located_path};
use crate::config::syntax::reader::{Located, Reader, did_you_mean, listed};
use crate::config::syntax::section::{Described, FromNode, Section, keys, section};
use crate::settings::{AuditConfig, KeptArguments, TelemetryConfig, defaults};

keys! {
    /// Records every call of a tool, a JSON object a line.
    #[schemars(rename = "Audit", deny_unknown_fields)]
    pub(crate) struct RawAudit {
        /// The file that is written to. Relative paths start at the folder of this file.
        #[schemars(required, extend("examples" = ["~/.local/state/mcp-workbench/audit.jsonl"]))]
        "file" as pub(crate) file: Located<String>,

        /// How much is kept of the arguments: a keyed `hash`, the `whole` of them less secrets, or
        /// `none`.
        #[schemars(extend("enum" = ["hash", "whole", "none", null], "default" = "hash"))]
        "arguments" as pub(crate) arguments: Located<String> => kept,

        /// From how many bytes on the file is put aside, as `audit.1.jsonl`.
        #[schemars(extend("default" = defaults::AUDIT_BYTES))]
        "maxBytes" as pub(crate) max_bytes: Located<u64> [numbers::AUDIT_BYTES],

        /// How many files are kept that were put aside.
        #[schemars(extend("default" = defaults::AUDIT_FILES))]
        "keep" as pub(crate) keep: Located<u64> [numbers::AUDIT_FILES],
    }
}

section! {
    /// Tells others of every call.
    #[schemars(rename = "Telemetry")]
    pub(crate) struct RawTelemetry {
        /// The address of an OpenTelemetry collector that takes OTLP over HTTP.
        #[schemars(extend("examples" = ["http://127.0.0.1:4318"]))]
        "otlp" as pub(crate) otlp: Located<String>,
    }
}

impl RawAudit {
    pub(crate) fn checked(self, places: &Places<'_>) -> Option<AuditConfig> {
        let Self { file, arguments, max_bytes, keep } = self;
        let word = arguments.map(|word| word.value);
        let arguments =
            KeptArguments::ALL.into_iter().find(|kept| Some(kept.as_str()) == word.as_deref());
        Some(AuditConfig {
            file: located_path(&file?.value, places),
            arguments: arguments.unwrap_or_default(),
            max_bytes: number(max_bytes).unwrap_or(defaults::AUDIT_BYTES),
            keep: number(keep).unwrap_or(defaults::AUDIT_FILES),
        })
    }
}

impl FromNode for RawAudit {
    const SECTION: Option<&'static Section> = Some(Self::DESCRIPTION);

    fn from_node(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let audit = object(node, reader, Self::read)?;
        let is_empty = audit.file.as_ref().is_some_and(|file| file.value.trim().is_empty());
        if is_empty || (audit.file.is_none() && !reader.has_error_under(&node.spot, "file")) {
            let hint = "write the `file` that calls are recorded in, such as `audit.jsonl`";
            reader.error(&node.spot, "expected a `file`", Some(hint.to_owned()));
        }
        Some(audit)
    }
}

fn kept(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Located<String>> {
    let word = reader.string(node)?;
    let words = KeptArguments::ALL.map(KeptArguments::as_str);
    if !words.contains(&word.value.as_str()) {
        let message = format!("expected {}, found `{}`", listed(&words, "or"), word.value);
        reader.error(&word.spot, message, did_you_mean(&word.value, &words));
    }
    Some(word)
}

impl RawTelemetry {
    pub(crate) fn checked(self, reader: &mut Reader<'_>) -> TelemetryConfig {
        let otlp = self.otlp.and_then(|Located { value, spot }| match otlp_address(&value) {
            Ok(url) => Some(url),
            Err(reason) => {
                let hint = "write the address of a collector, such as `http://127.0.0.1:4318`";
                reader.error(&spot, reason, Some(hint.to_owned()));
                None
            }
        });
        TelemetryConfig { otlp }
    }
}

/// Where spans go at a collector with this address: to `v1/traces` there, unless that is the
/// address.
pub fn otlp_address(text: &str) -> Result<Url, String> {
    const TRACES: &str = "v1/traces";
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let mut url = url.ok_or_else(|| format!("expected an http address, found `{text}`"))?;
    let path = url.path().trim_end_matches('/').to_owned();
    if !path.ends_with(TRACES) {
        url.set_path(&format!("{path}/{TRACES}"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_go_to_the_place_for_traces() {
        let address = |text| otlp_address(text).map(String::from);
        for (given, expected) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("https://otel.example/a/", "https://otel.example/a/v1/traces"),
            ("http://host/v1/traces", "http://host/v1/traces"),
        ] {
            assert_eq!(address(given).as_deref(), Ok(expected));
        }
        assert!(address("grpc://host").is_err() && address("localhost:4318").is_err());
    }
}
