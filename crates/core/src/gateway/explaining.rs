//! An addition to an error of a server: which of the arguments do not fit the tool's schema.
//!
//! Only a call through a tool of ours is answered so. What the server said stays before it, byte for
//! byte.

use serde_json::json;

use crate::backend::Outcome;
use crate::catalog::schema::list_mismatches;
use crate::gateway::{Gateway, observing};
use crate::name::ToolId;
use crate::raw::Raw;

/// The member of an error's `data` that says it.
const HINT: &str = "hint";

impl Gateway {
    /// Returns the answer of a server; if it is an error, and some of the arguments do not fit the
    /// tool's schema, with a word on that: in a result as a block of text after the others, in an
    /// error of the protocol as a member of its `data`. Where there is no place for it, the answer
    /// stays as it is.
    pub fn explained(&self, tool: &ToolId, arguments: Option<&Raw>, outcome: Outcome) -> Outcome {
        if !is_error(&outcome) {
            return outcome;
        }
        let view = self.snapshot().view(&tool.toolbox);
        let shown = view.tool(tool.server.as_str(), &tool.tool);
        let mismatches = shown.map(|shown| shown.mismatches(arguments)).unwrap_or_default();
        if mismatches.is_empty() {
            return outcome;
        }
        let hint = format!(
            "the arguments do not fit the schema of `{tool}`, which may be why:\n{}",
            list_mismatches(&mismatches)
        );
        with_hint(outcome, &hint)
    }
}

fn is_error(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Result(result) => observing::is_error(result),
        Outcome::Error(_) => true,
    }
}

fn with_hint(outcome: Outcome, hint: &str) -> Outcome {
    match outcome {
        Outcome::Result(result) => Outcome::Result(with_block(&result, hint).unwrap_or(result)),
        Outcome::Error(error) => Outcome::Error(with_data(&error, hint).unwrap_or(error)),
    }
}

fn with_block(result: &Raw, hint: &str) -> Option<Raw> {
    let block = Raw::encode(&json!({"type": "text", "text": hint}));
    let content = match result.member("content") {
        Some(content) => content.with_item(&block)?,
        None => Raw::encode(&json!([block])),
    };
    result.with_member("content", &content)
}

fn with_data(error: &Raw, hint: &str) -> Option<Raw> {
    let data = match error.member("data") {
        Some(data) if data.member(HINT).is_some() => return None,
        Some(data) => data.with_member(HINT, &Raw::of_text(hint))?,
        None => Raw::encode(&json!({HINT: hint})),
    };
    error.with_member("data", &data)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::value::RawValue;

    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::encode(&RawValue::from_string(text.to_owned()).expect("JSON"))
    }

    #[test]
    fn a_result_gets_a_block_and_stays_as_it_is_before_it() {
        let hinted = |text: &str| match with_hint(Outcome::Result(raw(text)), "why") {
            Outcome::Result(result) => result.as_str().into_owned(),
            Outcome::Error(error) => panic!("{error:?}"),
        };
        let block = r#"{"type":"text","text":"why"}"#;
        assert_eq!(
            hinted(
                r#"{ "content" : [ {"text":"\u0041" , "type":"text"} ] ,"isError":true,"n":1.0}"#
            ),
            format!(
                r#"{{ "content" : [ {{"text":"\u0041" , "type":"text"}} ,{block}] ,"isError":true,"n":1.0}}"#
            )
        );
        assert_eq!(
            hinted(r#"{"content":[],"isError":true}"#),
            format!(r#"{{"content":[{block}],"isError":true}}"#)
        );
        assert_eq!(
            hinted(r#"{"isError":true}"#),
            format!(r#"{{"content":[{block}],"isError":true}}"#)
        );
        for odd in [r#"{"content":"text","isError":true}"#, r#"{"content":null,"isError":true}"#] {
            assert_eq!(hinted(odd), odd, "there is no place for it");
        }
    }

    #[test]
    fn an_error_of_the_protocol_keeps_its_code_its_message_and_its_data() {
        let hinted = |text: &str| match with_hint(Outcome::Error(raw(text)), "why") {
            Outcome::Error(error) => error.as_str().into_owned(),
            Outcome::Result(result) => panic!("{result:?}"),
        };
        assert_eq!(
            hinted(r#"{"code":-32602, "message":"\u0041"}"#),
            r#"{"data":{"hint":"why"},"code":-32602, "message":"\u0041"}"#
        );
        assert_eq!(
            hinted(r#"{"code":-32602,"message":"a","data":{"n":1.0}}"#),
            r#"{"code":-32602,"message":"a","data":{"hint":"why","n":1.0}}"#
        );
        for own in [
            r#"{"code":1,"message":"a","data":{"hint":"its own"}}"#,
            r#"{"code":1,"message":"a","data":[1.0]}"#,
            r#"{"code":1,"message":"a","data":null}"#,
        ] {
            assert_eq!(hinted(own), own);
        }
    }
}
