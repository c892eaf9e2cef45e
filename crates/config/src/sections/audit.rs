//! The `audit` section (a log of all calls) and the `telemetry` section (OTLP export).

use url::Url;

use crate::sections::ranges;
use crate::syntax::checks::narrow_number;
use crate::syntax::document::Node;
use crate::syntax::objects::read_closed_object;
use crate::syntax::paths::{PathResolver, resolve_path};
use crate::syntax::reader::{ConfigReader, Located, did_you_mean, quoted_list};
use crate::syntax::section::{ConfigSection, FromNode, SectionSpec, keys, section};
use mcp_workbench_settings::{ArgumentCapture, AuditConfig, TelemetryConfig, defaults};

keys! {
    /// Audit log: one JSON object per tool call.
    #[schemars(rename = "Audit", deny_unknown_fields)]
    pub(crate) struct RawAudit {
        /// Path of the audit log. Relative paths start at the folder of this file.
        #[schemars(required, extend("examples" = ["~/.local/state/mcp-workbench/audit.jsonl"]))]
        "file" as pub(crate) file: Located<String>,

        /// How to record arguments: as a keyed `hash`, in full but without secrets (`whole`), or
        /// not at all (`none`).
        #[schemars(extend("enum" = ["hash", "whole", "none", null], "default" = "hash"))]
        "arguments" as pub(crate) arguments: Located<String> => read_argument_retention,

        /// Size at which the file is rotated, in bytes. Older files are named `audit.1.jsonl` and
        /// so on.
        #[schemars(extend("default" = defaults::AUDIT_BYTES))]
        "maxBytes" as pub(crate) max_bytes: Located<u64> [ranges::AUDIT_BYTES],

        /// Number of rotated files to keep.
        #[schemars(extend("default" = defaults::AUDIT_FILES))]
        "keep" as pub(crate) keep: Located<u64> [ranges::AUDIT_FILES],
    }
}

section! {
    /// Export of traces.
    #[schemars(rename = "Telemetry")]
    pub(crate) struct RawTelemetry {
        /// URL of an OpenTelemetry collector that accepts OTLP over HTTP. It receives a span per
        /// tool call.
        #[schemars(extend("examples" = ["http://127.0.0.1:4318"]))]
        "otlp" as pub(crate) otlp: Located<String>,
    }
}

impl RawAudit {
    pub(crate) fn into_checked(self, paths: &PathResolver<'_>) -> Option<AuditConfig> {
        let Self { file, arguments, max_bytes, keep } = self;
        let word = arguments.map(|word| word.value);
        let arguments = ArgumentCapture::ALL
            .into_iter()
            .find(|capture| Some(capture.as_str()) == word.as_deref());
        Some(AuditConfig {
            file: resolve_path(&file?.value, paths),
            arguments: arguments.unwrap_or_default(),
            max_bytes: narrow_number(max_bytes).unwrap_or(defaults::AUDIT_BYTES),
            keep: narrow_number(keep).unwrap_or(defaults::AUDIT_FILES),
        })
    }
}

impl FromNode for RawAudit {
    const SECTION: Option<&'static SectionSpec> = Some(Self::SPEC);

    fn from_node(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Self> {
        let audit = read_closed_object(node, reader, Self::read_keys)?;
        let is_empty = audit.file.as_ref().is_some_and(|file| file.value.trim().is_empty());
        if is_empty || (audit.file.is_none() && !reader.has_error_under(&node.location, "file")) {
            let hint = "add the `file` to write to, such as `audit.jsonl`";
            reader.report_error(&node.location, "expected a `file`", Some(hint.to_owned()));
        }
        Some(audit)
    }
}

fn read_argument_retention(
    node: &Node<'_>,
    reader: &mut ConfigReader<'_>,
) -> Option<Located<String>> {
    let word = reader.read_string(node)?;
    let words = ArgumentCapture::ALL.map(ArgumentCapture::as_str);
    if !words.contains(&word.value.as_str()) {
        let message = format!("expected {}, found `{}`", quoted_list(&words, "or"), word.value);
        reader.report_error(&word.location, message, did_you_mean(&word.value, &words));
    }
    Some(word)
}

impl RawTelemetry {
    pub(crate) fn checked(self, reader: &mut ConfigReader<'_>) -> TelemetryConfig {
        let otlp =
            self.otlp.and_then(|Located { value, location: spot }| match otlp_traces_url(&value) {
                Ok(url) => Some(url),
                Err(reason) => {
                    let hint = "write the URL of a collector, such as `http://127.0.0.1:4318`";
                    reader.report_error(&spot, reason, Some(hint.to_owned()));
                    None
                }
            });
        TelemetryConfig { otlp }
    }
}

/// Returns the traces URL of an OTLP/HTTP collector: appends `v1/traces` to the path unless it
/// already ends with it.
///
/// Returns an error message if `text` is not an `http` or `https` URL.
pub fn otlp_traces_url(text: &str) -> Result<Url, String> {
    const TRACES: &str = "v1/traces";
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let mut url = url.ok_or_else(|| format!("expected an HTTP URL, found `{text}`"))?;
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
    fn otlp_traces_url_appends_the_path_once() {
        let address = |text| otlp_traces_url(text).map(String::from);
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
