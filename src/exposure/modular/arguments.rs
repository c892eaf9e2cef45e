//! What a call of one of the two tools asks for.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::exposure::meta::unquoted;
use crate::exposure::modular::{CALL, GET};
use crate::raw::Raw;

/// What a call of `get-modular-tools` asks for.
#[derive(Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct GetTools {
    #[serde(alias = "category", alias = "toolbox")]
    pub(crate) group: String,
    /// Only these tools, with their whole definitions; `None`: all.
    #[serde(default)]
    pub(crate) names: Option<Vec<String>>,
}

impl GetTools {
    pub(crate) fn parse(arguments: Option<&Raw>) -> Result<Self, String> {
        let text = unquoted(arguments);
        text.map_or_else(|| serde_json::from_str("{}"), |text| text.parse()).map_err(|error| {
            format!(
                "{GET} cannot read its arguments: {error}. Expected {{\"group\": \"<name>\"}}, and \
                 where wanted \"names\": [\"<tool>\", …]."
            )
        })
    }
}

/// What a call of `call-modular-tool` asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CallTool {
    pub(crate) group: String,
    pub(crate) name: String,
    /// The arguments for the tool, as raw text where the agent wrote them as such.
    pub(crate) args: Option<Raw>,
}

impl CallTool {
    /// Understands `{group, name, args}`, where `args` may be missing, `null`, or an object
    /// written as a string.
    pub(crate) fn parse(arguments: Option<&Raw>) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Fields<'a> {
            #[serde(alias = "category", alias = "toolbox")]
            group: String,
            #[serde(alias = "tool", alias = "tool_name")]
            name: String,
            #[serde(borrow, default, alias = "arguments")]
            args: Option<&'a RawValue>,
        }

        let text = unquoted(arguments).ok_or_else(|| expected("no arguments were given"))?;
        let text = text.into_bytes();
        let Fields { group, name, args } =
            serde_json::from_slice(&text).map_err(|error| expected(&error.to_string()))?;
        let args = args.map(|raw| Raw::slice_of(&text, raw));
        Ok(Self { group, name, args: unquoted(args.as_ref()) })
    }
}

fn expected(problem: &str) -> String {
    format!(
        "{CALL} cannot read its arguments: {problem}. Expected {{\"group\": \"<name>\", \"name\": \
         \"<tool>\", \"args\": {{…}}}}."
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn call(arguments: &Value) -> Result<CallTool, String> {
        CallTool::parse(Some(&Raw::encode(arguments)))
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
        assert_eq!(args(json!([1])).as_deref(), Some("[1]"), "refused by the tool's schema");
    }

    #[test]
    fn what_is_missing_is_said() {
        let problem = call(&json!({"group": "g"})).unwrap_err();
        assert!(problem.contains("missing field `name`"), "{problem}");
        assert!(CallTool::parse(None).is_err());
        let problem = GetTools::parse(None).unwrap_err();
        assert!(problem.contains("missing field `group`"), "{problem}");
    }

    #[test]
    fn the_words_of_categories_are_understood() {
        let wanted = GetTools::parse(Some(&Raw::encode(&json!({"category": "fs"})))).unwrap();
        assert_eq!(wanted, GetTools { group: "fs".to_owned(), names: None });
        assert_eq!(call(&json!({"category": "fs", "name": "t"})).unwrap().group, "fs");
    }
}
