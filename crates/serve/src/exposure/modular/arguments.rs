//! Arguments of `get-modular-tools` and `call-modular-tool`.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::exposure::meta_tools::unwrap_json_string;
use crate::exposure::modular::{CALL_TOOL, GET_TOOLS, MAX_NAME};
use mcp_workbench_core::catalog::shorten;
use mcp_workbench_wire::json::{self, RawJson};

#[derive(Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct GetTools {
    #[serde(alias = "category", alias = "toolbox")]
    pub(crate) group: String,
    /// Only these tools, in full if they fit; `None` means all.
    #[serde(default)]
    pub(crate) names: Option<Vec<String>>,
}

impl GetTools {
    pub(crate) fn parse(arguments: Option<&RawJson>) -> Result<Self, String> {
        let text = unwrap_json_string(arguments);
        text.map_or_else(|| serde_json::from_str("{}"), |text| text.parse()).map_err(|error| {
            format!(
                "invalid arguments for {GET_TOOLS}: {error}. Expected {{\"group\": \"<name>\"}}, \
                 optionally \"names\": [\"<tool>\", …]."
            )
        })
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CallTool {
    pub(crate) group: String,
    pub(crate) name: String,
    pub(crate) args: Option<RawJson>,
}

impl CallTool {
    /// `args` may be missing, `null`, or an object encoded as a string.
    pub(crate) fn parse(arguments: Option<&RawJson>) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Fields<'a> {
            #[serde(alias = "category", alias = "toolbox")]
            group: String,
            #[serde(alias = "tool", alias = "tool_name")]
            name: String,
            #[serde(borrow, default, alias = "arguments")]
            args: Option<&'a RawValue>,
        }

        let text = unwrap_json_string(arguments).ok_or_else(|| expected("they are missing"))?;
        let call = text.into_owned();
        let text = call.clone().into_bytes();
        let Fields { group, name, args } =
            serde_json::from_slice(&text).map_err(|error| expected(&error.to_string()))?;
        let args = args.map(|raw| RawJson::from_borrowed(&text, raw));
        let args = unwrap_json_string(args).map(Cow::into_owned);
        let is_empty = |args: &RawJson| args.members().is_some_and(|members| members.is_empty());
        if args.as_ref().is_none_or(is_empty)
            && let Some(beside) = beside(&call)
        {
            return Err(misplaced(&group, &name, &beside));
        }
        Ok(Self { group, name, args })
    }
}

/// Returns the unknown members of a call: arguments of the tool written next to `args`.
fn beside(call: &RawJson) -> Option<Vec<(String, RawJson)>> {
    const KNOWN: [&str; 9] =
        ["group", "category", "toolbox", "name", "tool", "tool_name", "args", "arguments", "_meta"];
    let members = call.members()?.into_iter().map(|(name, value)| (name.into_owned(), value));
    let members: Vec<_> = members.filter(|(name, _)| !KNOWN.contains(&name.as_str())).collect();
    (!members.is_empty()).then_some(members)
}

fn misplaced(group: &str, name: &str, beside: &[(String, RawJson)]) -> String {
    let args = json::object(beside.iter().map(|(name, value)| (name.as_str(), value)));
    let call = |args: &str| {
        let [group, name] = [group, name].map(|text| json!(shorten(text, MAX_NAME)));
        format!("{{\"group\": {group}, \"name\": {name}, \"args\": {args}}}")
    };
    let whole = call(&args.as_str());
    let told = if whole.len() <= MAX_EXAMPLE { whole } else { call("{…}") };
    let (first, _) = &beside[0];
    format!(
        "`{}` is not an argument of {CALL_TOOL}, so nothing was called: put the arguments of the tool \
         under `args`. Call {CALL_TOOL} with {told}.",
        shorten(first, MAX_NAME)
    )
}

/// The longest corrected call that an error contains, in bytes.
const MAX_EXAMPLE: usize = 1000;

fn expected(problem: &str) -> String {
    format!(
        "invalid arguments for {CALL_TOOL}: {problem}. Expected {{\"group\": \"<name>\", \"name\": \
         \"<tool>\", \"args\": {{…}}}}."
    )
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn call(arguments: &Value) -> Result<CallTool, String> {
        CallTool::parse(Some(&RawJson::encode(arguments)))
    }

    #[test]
    fn arguments_may_be_missing_null_or_a_string() {
        let args = |args: Value| {
            let mut arguments = json!({"group": "g", "name": "t"});
            arguments["args"] = args;
            call(&arguments).unwrap().args.map(|args| args.as_str().into_owned())
        };
        assert_eq!(call(&json!({"group": "g", "name": "t"})).unwrap().args, None);
        assert_eq!(args(json!(null)), None);
        assert_eq!(args(json!("")), None);
        assert_eq!(args(json!({"a": 1})).as_deref(), Some(r#"{"a":1}"#));
        assert_eq!(args(json!(r#"{"a": 1.0}"#)).as_deref(), Some(r#"{"a": 1.0}"#));
        assert_eq!(args(json!([1])).as_deref(), Some("[1]"), "refused by the gateway");
    }

    #[test]
    fn misplaced_arguments_get_a_corrected_call() {
        let beside = json!({"group": "g", "name": "echo", "text": "hi", "n": 1.50});
        assert_eq!(
            call(&beside).unwrap_err(),
            "`text` is not an argument of call-modular-tool, so nothing was called: put the \
             arguments of the tool under `args`. Call call-modular-tool with {\"group\": \"g\", \
             \"name\": \"echo\", \"args\": {\"text\":\"hi\",\"n\":1.5}}."
        );
        let empty = json!({"group": "g", "name": "echo", "args": {}, "text": "hi"});
        assert!(call(&empty).unwrap_err().contains("under `args`"));
        let both = json!({"group": "g", "name": "echo", "args": {"text": "hi"}, "note": "x"});
        assert!(call(&both).is_ok(), "as in Modular MCP, which ignores it");
        let long = json!({"group": "g", "name": "echo", "text": "x".repeat(100_000)});
        let told = call(&long).unwrap_err();
        assert!(told.len() < 500 && told.ends_with("\"args\": {…}}."), "{told}");
    }

    #[test]
    fn missing_fields_are_reported() {
        let problem = call(&json!({"group": "g"})).unwrap_err();
        assert!(problem.contains("missing field `name`"), "{problem}");
        assert!(CallTool::parse(None).is_err());
        let problem = GetTools::parse(None).unwrap_err();
        assert!(problem.contains("missing field `group`"), "{problem}");
    }

    #[test]
    fn category_aliases_are_accepted() {
        let wanted = GetTools::parse(Some(&RawJson::encode(&json!({"category": "fs"})))).unwrap();
        assert_eq!(wanted, GetTools { group: "fs".to_owned(), names: None });
        assert_eq!(call(&json!({"category": "fs", "name": "t"})).unwrap().group, "fs");
    }
}
