//! The OpenTelemetry collector that the environment names.

use url::Url;

use mcp_workbench_config::env::EnvSource;
use mcp_workbench_config::otlp_traces_url;

/// Standard environment variables of OpenTelemetry.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
pub(crate) const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
const DISABLED: &str = "OTEL_SDK_DISABLED";

pub(crate) fn otlp_endpoint(env: &impl EnvSource) -> Result<Option<Url>, String> {
    let said = |name| env.get(name).filter(|value| !value.is_empty());
    if said(DISABLED).is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Ok(None);
    }
    let address = said(TRACES_ENDPOINT).map(|address| {
        Url::parse(&address).map_err(|_| format!("expected an http URL, found `{address}`"))
    });
    let address = address.or_else(|| said(ENDPOINT).map(|address| otlp_traces_url(&address)));
    address.transpose()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn reads_the_otlp_endpoint_from_the_environment() {
        let of = |variables: &[(&str, &str)]| {
            let env: BTreeMap<String, String> =
                variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            otlp_endpoint(&env).map(|url| url.map(String::from))
        };
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[(ENDPOINT, "")]), Ok(None));
        assert_eq!(of(&[(ENDPOINT, "http://a:1")]), Ok(Some("http://a:1/v1/traces".to_owned())));
        let both = [(ENDPOINT, "http://a:1"), (TRACES_ENDPOINT, "http://b:2/x")];
        assert_eq!(of(&both), Ok(Some("http://b:2/x".to_owned())));
        assert_eq!(of(&[(ENDPOINT, "http://a:1"), (DISABLED, "true")]), Ok(None));
        assert!(of(&[(ENDPOINT, "a:1")]).is_err());
    }
}
