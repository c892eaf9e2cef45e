//! The arguments of calls of the two tools.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::catalog::shorten;
use crate::exposure::meta::unquoted;
use crate::exposure::modular::{CALL, GET, MAX_NAME};
use crate::raw::{self, Raw};

/// The arguments of a call of `get-modular-tools`.
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

/// The arguments of a call of `call-modular-tool`.
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
        let call = text.into_owned();
        let text = call.clone().into_bytes();
        let Fields { group, name, args } =
            serde_json::from_slice(&text).map_err(|error| expected(&error.to_string()))?;
        let args = args.map(|raw| Raw::slice_of(&text, raw));
        let args = unquoted(args).map(Cow::into_owned);
        let is_empty = |args: &Raw| args.members().is_some_and(|members| members.is_empty());
        if args.as_ref().is_none_or(is_empty)
            && let Some(beside) = beside(&call)
        {
            return Err(misplaced(&group, &name, &beside));
        }
        Ok(Self { group, name, args })
    }
}

/// The members of a call that it has no meaning for: arguments of the tool that stand beside `args`.
fn beside(call: &Raw) -> Option<Vec<(String, Raw)>> {
    const KNOWN: [&str; 9] =
        ["group", "category", "toolbox", "name", "tool", "tool_name", "args", "arguments", "_meta"];
    let members = call.members()?.into_iter().map(|(name, value)| (name.into_owned(), value));
    let members: Vec<_> = members.filter(|(name, _)| !KNOWN.contains(&name.as_str())).collect();
    (!members.is_empty()).then_some(members)
}

/// Says what to write, whole where that is not long.
fn misplaced(group: &str, name: &str, beside: &[(String, Raw)]) -> String {
    let args = raw::object(beside.iter().map(|(name, value)| (name.as_str(), value)));
    let call = |args: &str| {
        let [group, name] = [group, name].map(|text| json!(shorten(text, MAX_NAME)));
        format!("{{\"group\": {group}, \"name\": {name}, \"args\": {args}}}")
    };
    let whole = call(&args.as_str());
    let told = if whole.len() <= MAX_EXAMPLE { whole } else { call("{…}") };
    let (first, _) = &beside[0];
    format!(
        "`{}` is not an argument of {CALL}, so nothing was called: put the arguments of the tool \
         under `args`. Call {CALL} with {told}.",
        shorten(first, MAX_NAME)
    )
}

/// The most bytes of an example that repeats what was given.
const MAX_EXAMPLE: usize = 1000;

fn expected(problem: &str) -> String {
    format!(
        "{CALL} cannot read its arguments: {problem}. Expected {{\"group\": \"<name>\", \"name\": \
         \"<tool>\", \"args\": {{…}}}}."
    )
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

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
        assert_eq!(args(json!([1])).as_deref(), Some("[1]"), "refused by the gateway");
    }

    #[test]
    fn arguments_beside_args_are_answered_with_what_to_write() {
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
