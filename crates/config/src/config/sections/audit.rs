//! The `audit` section (a log of all calls) and the `telemetry` section (OTLP export).

use url::Url;

use crate::config::sections::ranges;
use crate::config::syntax::checks::narrow_number;
use crate::config::syntax::document::Node;
use crate::config::syntax::objects::read_closed_object;
use crate::config::syntax::paths::{PathResolver, resolve_path};
use crate::config::syntax::reader::{ConfigReader, Located, did_you_mean, quoted_list};
use crate::config::syntax::section::{ConfigSection, FromNode, SectionSpec, keys, section};
use crate::settings::{ArgumentCapture, AuditConfig, TelemetryConfig, defaults};

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
        "arguments" as pub(crate) arguments: Located<String> => read_argument_retention,

        /// From how many bytes on the file is put aside, as `audit.1.jsonl`.
        #[schemars(extend("default" = defaults::AUDIT_BYTES))]
        "maxBytes" as pub(crate) max_bytes: Located<u64> [ranges::AUDIT_BYTES],

        /// How many files are kept that were put aside.
        #[schemars(extend("default" = defaults::AUDIT_FILES))]
        "keep" as pub(crate) keep: Located<u64> [ranges::AUDIT_FILES],
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
            let hint = "write the `file` that calls are recorded in, such as `audit.jsonl`";
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
                    let hint = "write the address of a collector, such as `http://127.0.0.1:4318`";
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
