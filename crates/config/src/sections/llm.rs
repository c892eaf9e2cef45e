//! An OpenAI-compatible endpoint, as used by `navigator.llm` and `search.embeddings`.

use std::time::Duration;

use ::http::header::HeaderValue;
use url::Url;

use crate::sections::ranges;
use crate::sections::secret_ref::{TextOrSecretRef, read_text_or_ref};
use crate::syntax::checks::duration_from_millis;
use crate::syntax::document::{Node, SourceLocation};
use crate::syntax::reader::{ConfigReader, Located};
use crate::syntax::section::{FromNode, section};
use crate::syntax::variables::variable_names;
use mcp_workbench_settings::{LlmConfig, defaults, is_loopback};

/// Paths of single API methods; a base URL that ends with one is a mistake.
const PATHS: [&str; 4] = ["/chat/completions", "/completions", "/embeddings", "/responses"];

section! {
    /// An endpoint with the API of `OpenAI`, such as Cerebras, Gemini, `OpenAI` or Ollama.
    #[schemars(rename = "Endpoint")]
    pub(crate) struct RawLlm {
        /// Base URL of the API.
        #[schemars(required, extend("examples" = ["https://api.cerebras.ai/v1", "http://127.0.0.1:11434/v1"]))]
        "baseUrl" | "base_url" as pub(crate) base_url: Located<String>,

        /// Name of the model.
        #[schemars(required, extend("examples" = ["gpt-oss-120b"]))]
        "model" as pub(crate) model: Located<String>,

        /// API key: a variable or a reference, so that the key itself is not in the file.
        #[schemars(with = "Option<TextOrSecretRef>", extend("examples" = ["${CEREBRAS_API_KEY}"]))]
        "apiKey" | "api_key" as pub(crate) api_key: RawApiKey,

        /// Timeout of a request, including retries, in milliseconds.
        #[schemars(extend("default" = defaults::LLM_TIMEOUT_MS))]
        "timeoutMs" | "timeout_ms" as pub(crate) timeout_ms: Located<u64> [(1, ranges::MAX_TIMEOUT_MS)],

        /// Reasoning effort of the model, such as `low`. Sent unchanged.
        "reasoningEffort" | "reasoning_effort" as pub(crate) reasoning_effort: Located<String>,
    }
}

impl RawLlm {
    pub(crate) fn checked(
        self,
        spot: &SourceLocation,
        reader: &mut ConfigReader<'_>,
    ) -> Option<LlmConfig> {
        let Self { base_url, model, api_key, timeout_ms, reasoning_effort } = self;
        let base_url = match base_url {
            Some(text) => {
                address(&text, reader).map(|url| Located { value: url, location: text.location })
            }
            None => missing("baseUrl", spot, reader),
        };
        let model = match model {
            Some(model) => word(&model, "a model name", reader),
            None => missing("model", spot, reader),
        };
        let is_lacking = api_key.is_none() && reader.has_error_under(spot, "apiKey");
        let api_key = api_key.and_then(|api_key| key(api_key, reader));
        let effort = reasoning_effort.and_then(|text| word(&text, "a word such as `low`", reader));
        let Located { value: base_url, location: spot } = base_url?;
        if is_lacking {
            return None;
        }
        if api_key.is_some() && base_url.scheme() == "http" && !is_loopback(&base_url) {
            let message = "the API key and all prompts are sent unencrypted";
            reader.report_warning(&spot, message, Some("use `https://`".to_owned()));
        }
        Some(LlmConfig {
            base_url,
            model: model?,
            api_key,
            timeout: duration_from_millis(timeout_ms)
                .unwrap_or(Duration::from_millis(defaults::LLM_TIMEOUT_MS)),
            reasoning_effort: effort,
        })
    }
}

fn missing<T>(key: &str, location: &SourceLocation, reader: &mut ConfigReader<'_>) -> Option<T> {
    if !reader.has_error_under(location, key) {
        reader.report_error(location, format!("expected a `{key}`"), None);
    }
    None
}

fn word(text: &Located<String>, expected: &str, reader: &mut ConfigReader<'_>) -> Option<String> {
    let word = text.value.trim();
    if word.is_empty() {
        reader.report_error(&text.location, format!("expected {expected}"), None);
        return None;
    }
    Some(word.to_owned())
}

pub(crate) struct RawApiKey {
    text: Located<String>,
    /// `true` if the file contains the key itself rather than a variable or reference.
    is_literal: bool,
}

impl FromNode for RawApiKey {
    fn from_node(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Self> {
        let literal = node.value.as_string_lit();
        let has_variable =
            literal.is_some_and(|literal| !variable_names(&literal.value).is_empty());
        let is_written = literal.is_some() && !has_variable;
        Some(Self { text: read_text_or_ref(node, reader)?, is_literal: is_written })
    }
}

/// Checks that the key fits into a header. Errors don't repeat it, as it may be valid elsewhere.
fn key(api_key: RawApiKey, reader: &mut ConfigReader<'_>) -> Option<String> {
    let RawApiKey { text: Located { value: key, location: spot }, is_literal: is_written } =
        api_key;
    if reader.has_error_in(&spot) {
        return None;
    }
    if reader.is_unresolved(&spot) {
        return Some(key);
    }
    if key.is_empty() {
        let hint = "remove `apiKey` if the endpoint needs none";
        reader.report_error(&spot, "the API key is empty", Some(hint.to_owned()));
        return None;
    }
    let is_plain = key.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_plain || HeaderValue::try_from(&key).is_err() {
        let message =
            "invalid API key: expected visible ASCII characters, without spaces or line breaks";
        reader.report_error(&spot, message, None);
        return None;
    }
    if is_written {
        let hint = "write `${LLM_API_KEY}` and set that variable";
        reader.report_warning(&spot, "the API key is stored in plain text", Some(hint.to_owned()));
    }
    Some(key)
}

/// Parses the base URL and ends its path with a slash. Errors don't repeat the text, which may hold
/// a password.
fn address(text: &Located<String>, reader: &mut ConfigReader<'_>) -> Option<Url> {
    let url = Url::parse(text.value.trim()).ok();
    let Some(mut url) = url.filter(|url| matches!(url.scheme(), "http" | "https")) else {
        let hint = "write a URL such as `https://api.cerebras.ai/v1`".to_owned();
        let message = "expected a URL that starts with `https://` or `http://`";
        reader.report_error(&text.location, message, Some(hint));
        return None;
    };
    if !url.username().is_empty() || url.password().is_some() {
        let hint = "put credentials into `apiKey`".to_owned();
        reader.report_error(
            &text.location,
            "expected a URL without user name and password",
            Some(hint),
        );
        return None;
    }
    if url.query().is_some() || url.fragment().is_some() {
        reader.report_error(&text.location, "expected a URL without `?` and `#`", None);
        return None;
    }
    let path = url.path().trim_end_matches('/');
    if let Some(end) = PATHS.iter().find(|end| path.ends_with(**end)) {
        let hint = format!("remove `{end}`: the workbench appends the path of each request");
        reader.report_error(&text.location, "expected the base URL of the API", Some(hint));
        return None;
    }
    let folder = format!("{path}/");
    url.set_path(&folder);
    Some(url)
}
