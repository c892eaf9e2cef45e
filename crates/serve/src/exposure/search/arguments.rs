//! The arguments of a call of `search_tools`, however a model writes them.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::catalog::rank::MAX_QUERY;
use crate::exposure::meta::{self, Detail};
use crate::raw::Raw;

/// The most queries of one call.
pub(crate) const MAX_QUERIES: usize = 10;
/// How many tools a query gives at most, and how many where nothing is said.
pub(crate) const MAX_LIMIT: usize = 20;
pub(crate) const DEFAULT_LIMIT: usize = 5;

/// The arguments of a call of `search_tools`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SearchTools {
    /// The wishes, none of them empty or too long.
    pub(crate) queries: Vec<String>,
    /// How many more queries there were than one call may have.
    pub(crate) left_out: usize,
    pub(crate) toolbox: Option<String>,
    pub(crate) server: Option<String>,
    pub(crate) limit: usize,
    pub(crate) detail: Detail,
}

impl SearchTools {
    /// Understands `{queries, toolbox, server, limit, detail}`, where `queries` (or `query`) may be
    /// one text, a list, or a list that is written as a text; what is `null` or empty is not said.
    pub(crate) fn parse(arguments: Option<&Raw>) -> Result<Self, String> {
        let given = meta::unquoted(arguments).ok_or_else(|| expected("none were given"))?;
        let not_an_object = || expected("they are not an object");
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
            return Err(expected("there is no query"));
        }
        Ok(Self { queries, left_out, toolbox, server, limit, detail })
    }
}

/// The texts of a list, or of what stands for one.
fn texts(value: &Raw) -> Option<Vec<String>> {
    if let Some(text) = value.text() {
        let written = serde_json::from_str::<Box<RawValue>>(text.trim()).ok();
        let list = written.and_then(|list| Raw::encode(&list).items());
        let Some(items) = list else { return Some(vec![text.into_owned()]) };
        return items.iter().map(one).collect();
    }
    match value.items() {
        Some(items) => items.iter().map(one).collect(),
        None => one(value).map(|text| vec![text]),
    }
}

/// A text, a number, or an object that has a query in it.
fn one(item: &Raw) -> Option<String> {
    match item.as_bytes().first() {
        Some(b'"') => item.text().map(Cow::into_owned),
        Some(b'{') => item.member("query")?.text().map(Cow::into_owned),
        Some(b'[') => None,
        _ if item.as_bytes() == b"null" => Some(String::new()),
        _ => Some(item.as_str().into_owned()),
    }
}

/// As much of a query as is read, if there is anything in it.
fn query(text: &str) -> Option<&str> {
    let is_nothing = |c: char| c.is_whitespace() || c.is_control();
    let text = text.trim_matches(is_nothing);
    let text = &text[..text.floor_char_boundary(MAX_QUERY)];
    (!text.is_empty()).then_some(text)
}

fn name(key: &str, value: &Raw) -> Result<Option<String>, String> {
    let text = value.text().ok_or_else(|| expected(&no_text(key)))?;
    let text = text.trim();
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

/// A number, which may be written as a text, as far as it may be wanted.
fn number(value: &Raw) -> Result<usize, String> {
    let text = value.text().unwrap_or_else(|| value.as_str());
    let wanted = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    let wanted = wanted.ok_or_else(|| expected("`limit` is no number"))?;
    let reached = |limit: &usize| u32::try_from(*limit).is_ok_and(|it| f64::from(it) <= wanted);
    Ok((1..=MAX_LIMIT).rev().find(reached).unwrap_or(1))
}

fn way(value: &Raw) -> Result<Detail, String> {
    match value.text().map(|text| text.trim().to_lowercase()).as_deref() {
        Some("full") => Ok(Detail::Full),
        Some("signatures" | "") => Ok(Detail::Signatures),
        _ => Err(expected("`detail` is neither \"signatures\" nor \"full\"")),
    }
}

fn no_text(key: &str) -> String {
    format!("`{key}` is no text")
}

fn no_texts(key: &str) -> String {
    format!("`{key}` is no list of texts")
}

fn expected(problem: &str) -> String {
    format!(
        "search_tools cannot read its arguments: {problem}. Expected {{\"queries\": [\"<service> \
         <verb> <object>\", …]}}, and where wanted \"toolbox\": \"<name>\", \"server\": \"<name>\", \
         \"limit\": 1 to {MAX_LIMIT} and \"detail\": \"signatures\" or \"full\"."
    )
}

#[cfg(test)]
mod tests;
