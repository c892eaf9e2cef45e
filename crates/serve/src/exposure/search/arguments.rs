//! Parses the arguments of `search_tools` in all forms that models write.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::exposure::meta_tools::{self, Detail};
use mcp_workbench_core::catalog::rank::MAX_QUERY;
use mcp_workbench_wire::json::RawJson;

pub(crate) const MAX_QUERIES: usize = 10;
/// Tools returned for a query: the maximum and the default.
pub(crate) const MAX_LIMIT: usize = 20;
pub(crate) const DEFAULT_LIMIT: usize = 5;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SearchTools {
    /// Neither empty nor longer than `MAX_QUERY`.
    pub(crate) queries: Vec<String>,
    /// The number of queries over `MAX_QUERIES`.
    pub(crate) left_out: usize,
    pub(crate) toolbox: Option<String>,
    pub(crate) server: Option<String>,
    pub(crate) limit: usize,
    pub(crate) detail: Detail,
}

impl SearchTools {
    /// Parses `{queries, toolbox, server, limit, detail}`. `queries` (or `query`) may be a string,
    /// a list, or a list encoded as a string. Members that are `null` or empty count as missing.
    pub(crate) fn parse(arguments: Option<&RawJson>) -> Result<Self, String> {
        let given = meta_tools::unwrap_json_string(arguments)
            .ok_or_else(|| expected("they are missing"))?;
        let not_an_object = || expected("not an object");
        let (mut queries, mut left_out) = (Vec::new(), 0);
        let (mut toolbox, mut server) = (None, None);
        let (mut limit, mut detail) = (DEFAULT_LIMIT, Detail::Signatures);
        for member in given.each_member().ok_or_else(not_an_object)? {
            let (key, value) = member.ok_or_else(not_an_object)?;
            if value.as_bytes() == b"null" {
                continue;
            }
            match &*key {
                "queries" | "query" => {
                    let texts = texts(&value).ok_or_else(|| expected(&no_texts(&key)))?;
                    for text in texts.iter().filter_map(|text| query(text)) {
                        if queries.len() < MAX_QUERIES {
                            queries.push(text.to_owned());
                        } else {
                            left_out += 1;
                        }
                    }
                }
                "toolbox" | "toolbox_name" => toolbox = name(&key, &value)?,
                "server" | "server_name" => server = name(&key, &value)?,
                "limit" => limit = number(&value)?,
                "detail" => detail = way(&value)?,
                _ => {}
            }
        }
        if queries.is_empty() {
            return Err(expected("no query given"));
        }
        Ok(Self { queries, left_out, toolbox, server, limit, detail })
    }
}

fn texts(value: &RawJson) -> Option<Vec<String>> {
    if let Some(text) = value.decode_string_lossy() {
        let written = serde_json::from_str::<Box<RawValue>>(text.trim()).ok();
        let list = written.and_then(|list| RawJson::encode(&list).items());
        let Some(items) = list else { return Some(vec![text.into_owned()]) };
        return items.iter().map(parse_text).collect();
    }
    match value.items() {
        Some(items) => items.iter().map(parse_text).collect(),
        None => parse_text(value).map(|text| vec![text]),
    }
}

/// Accepts a string, a number, or an object with a `query`.
fn parse_text(item: &RawJson) -> Option<String> {
    match item.as_bytes().first() {
        Some(b'"') => item.decode_string_lossy().map(Cow::into_owned),
        Some(b'{') => item.member("query")?.decode_string_lossy().map(Cow::into_owned),
        Some(b'[') => None,
        _ if item.as_bytes() == b"null" => Some(String::new()),
        _ => Some(item.as_str().into_owned()),
    }
}

/// Returns the part of a query that is used, or `None` if it is blank.
fn query(text: &str) -> Option<&str> {
    let is_nothing = |c: char| c.is_whitespace() || c.is_control();
    let text = text.trim_matches(is_nothing);
    let text = &text[..text.floor_char_boundary(MAX_QUERY)];
    (!text.is_empty()).then_some(text)
}

fn name(key: &str, value: &RawJson) -> Result<Option<String>, String> {
    let text = value.decode_string().ok_or_else(|| expected(&no_text(key)))?;
    let text = text.trim();
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

/// Parses a number, possibly written as a string, and clamps it to the allowed range.
fn number(value: &RawJson) -> Result<usize, String> {
    let text = value.decode_string().unwrap_or_else(|| value.as_str());
    let wanted = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    let wanted = wanted.ok_or_else(|| expected("`limit` is not a number"))?;
    let reached = |limit: &usize| u32::try_from(*limit).is_ok_and(|it| f64::from(it) <= wanted);
    Ok((1..=MAX_LIMIT).rev().find(reached).unwrap_or(1))
}

fn way(value: &RawJson) -> Result<Detail, String> {
    match value.decode_string().map(|text| text.trim().to_lowercase()).as_deref() {
        Some("full") => Ok(Detail::Full),
        Some("signatures" | "") => Ok(Detail::Signatures),
        _ => Err(expected("`detail` is neither \"signatures\" nor \"full\"")),
    }
}

fn no_text(key: &str) -> String {
    format!("`{key}` is not a string")
}

fn no_texts(key: &str) -> String {
    format!("`{key}` is not a list of strings")
}

fn expected(problem: &str) -> String {
    format!(
        "invalid arguments for search_tools: {problem}. Expected {{\"queries\": [\"<service> \
         <verb> <object>\", …]}}, optionally \"toolbox\": \"<name>\", \"server\": \"<name>\", \
         \"limit\": 1 to {MAX_LIMIT} and \"detail\": \"signatures\" or \"full\"."
    )
}

#[cfg(test)]
mod tests;
