//! The lock beside a configuration: reading and checking it, and writing it.
//!
//! `config.json` has `workbench.lock` in its folder. Nothing in it is passed over: a lock that is not
//! understood whole keeps nobody from anything.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::name::seen;
use crate::raw::Raw;
use crate::settings::{
    Ecosystem, Hole, Lock, Locked, LockedKind, LockedPackage, LockedServer, Spelling, Sum,
};

/// The name of the file.
const FILE: &str = "workbench.lock";
/// The form that is written and read here.
const VERSION: u64 = 1;
/// The word in `when` for definitions that only clients that can do more are shown.
const MORE: &str = "clientCapabilities";

/// The lock that belongs to a configuration, or to the folder of a catalog.
pub fn lock_file(config: &Path, is_folder: bool) -> PathBuf {
    let folder = if is_folder { config } else { config.parent().unwrap_or(Path::new("/")) };
    folder.join(FILE)
}

/// Why a lock cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}\n\nhint: {hint}")]
pub struct BadLock {
    reason: String,
    hint: &'static str,
}

impl BadLock {
    fn new(reason: impl Into<String>) -> Self {
        let hint =
            "take the file back from version control, or write it anew with `mcp-workbench lock`";
        Self { reason: reason.into(), hint }
    }
}

#[derive(Deserialize)]
struct Head {
    version: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLock {
    #[expect(dead_code, reason = "it is read before the rest")]
    version: Value,
    servers: BTreeMap<String, RawServer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawServer {
    launch: Box<RawValue>,
    package: Option<RawPackage>,
    server_info: Option<Box<RawValue>>,
    instructions: Option<RawLocked>,
    #[serde(default)]
    tools: BTreeMap<String, RawLocked>,
    #[serde(default)]
    prompts: BTreeMap<String, RawLocked>,
    #[serde(default)]
    resource_templates: BTreeMap<String, RawLocked>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPackage {
    registry: String,
    name: String,
    version: Option<String>,
    integrity: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLocked {
    hash: String,
    definition: Box<RawValue>,
    #[serde(default)]
    ignore: Vec<RawHole>,
    #[serde(default)]
    variants: Vec<RawSpelling>,
    when: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSpelling {
    hash: String,
    definition: Box<RawValue>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawHole {
    Whole(String),
    Words(RawWords),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWords {
    at: String,
    words: Vec<usize>,
}

/// Reads the text of a lock.
///
/// # Errors
///
/// When it is not a lock that was written here, whole and unchanged but for what may be left out.
pub fn read_lock(text: &str) -> Result<Lock, BadLock> {
    let whole: Box<RawValue> = serde_json::from_str(text).map_err(|error| {
        let is_merge = ["<<<<<<<", "=======", ">>>>>>>"].iter().any(|mark| text.contains(mark));
        let why = if is_merge { " (there are marks of a merge in it)" } else { "" };
        BadLock::new(format!("it is no JSON: {error}{why}"))
    })?;
    let head: Head = serde_json::from_str(whole.get())
        .map_err(|error| BadLock::new(format!("it is no lock: {error}")))?;
    match &head.version {
        None => return Err(BadLock::new("it has no `version`, so it is no lock")),
        Some(version) if *version == VERSION => {}
        Some(Value::Number(version)) if version.as_u64().is_some_and(|v| v > VERSION) => {
            return Err(BadLock {
                reason: format!(
                    "it is of version {version}, and this release reads version {VERSION}"
                ),
                hint: "update mcp-workbench, or write the file anew with `mcp-workbench lock`",
            });
        }
        Some(version) => {
            return Err(BadLock::new(format!("expected version {VERSION}, found {version}")));
        }
    }
    if Raw::encode(&whole).canonical(usize::MAX).is_none() {
        return Err(BadLock::new("a member stands in it twice, or a text in it is no Unicode"));
    }
    let RawLock { version: _, servers } = serde_json::from_str(whole.get())
        .map_err(|error| BadLock::new(format!("it is no lock: {error}")))?;
    let read = |(name, server): (String, RawServer)| {
        let read = self::server(server).map_err(|Fault { at, why }| {
            BadLock::new(format!("`servers.{}{at}`: {why}", seen::named(&name, 80)))
        })?;
        Ok((name, Arc::new(read)))
    };
    Ok(Lock { servers: servers.into_iter().map(read).collect::<Result<_, _>>()? })
}

/// A fault of one member.
struct Fault {
    at: String,
    why: String,
}

fn server(raw: RawServer) -> Result<LockedServer, Fault> {
    let RawServer {
        launch,
        package,
        server_info,
        instructions,
        tools,
        prompts,
        resource_templates,
    } = raw;
    let one_line = |value: &RawValue| -> Result<Arc<str>, Fault> {
        let text = Raw::encode(&value).canonical(usize::MAX);
        let text = text.and_then(|text| String::from_utf8(text).ok());
        text.map(Arc::from).ok_or_else(unclear)
    };
    Ok(LockedServer {
        launch: one_line(&launch)?,
        package: package
            .map(|run| self::package(run).map_err(|fault| fault.within("package")))
            .transpose()?,
        info: server_info.as_deref().map(one_line).transpose()?,
        instructions: instructions
            .map(|said| locked(said, &[]).map_err(|fault| fault.within("instructions")))
            .transpose()?,
        tools: kind(tools, "tools", "name")?,
        prompts: kind(prompts, "prompts", "name")?,
        templates: kind(resource_templates, "resourceTemplates", "uriTemplate")?,
    })
}

fn package(raw: RawPackage) -> Result<LockedPackage, Fault> {
    let RawPackage { registry, name, version, integrity } = raw;
    let known = Ecosystem::ALL.into_iter().find(|known| known.as_str() == registry);
    let ecosystem = known.ok_or_else(|| {
        let words = Ecosystem::ALL.map(Ecosystem::as_str).join("`, `");
        let why = format!("expected one of `{words}`, found `{}`", seen::named(&registry, 40));
        Fault { at: ".registry".to_owned(), why }
    })?;
    Ok(LockedPackage { ecosystem, name, version, integrity })
}

fn kind(raw: BTreeMap<String, RawLocked>, member: &str, key: &str) -> Result<LockedKind, Fault> {
    let read = |(name, raw): (String, RawLocked)| {
        let locked = locked(raw, &[(key, &name)]);
        let place = || format!("{member}.{}", seen::named(&name, 80));
        Ok((name.clone(), locked.map_err(|fault| fault.within(&place()))?))
    };
    raw.into_iter().map(read).collect()
}

impl Fault {
    fn within(self, place: &str) -> Self {
        Self { at: format!(".{place}{}", self.at), why: self.why }
    }
}

fn unclear() -> Fault {
    Fault { at: String::new(), why: "it is not clear what it says".to_owned() }
}

fn locked(raw: RawLocked, expected: &[(&str, &str)]) -> Result<Locked, Fault> {
    let RawLocked { hash, definition, ignore, variants, when } = raw;
    let is_conditional = match when.as_deref() {
        None => false,
        Some(MORE) => true,
        Some(other) => {
            let why = format!("expected `{MORE}`, found `{}`", seen::named(other, 40));
            return Err(Fault { at: ".when".to_owned(), why });
        }
    };
    let ignore: Vec<Hole> = ignore
        .into_iter()
        .map(|hole| match hole {
            RawHole::Whole(at) => (at, Vec::new()),
            RawHole::Words(RawWords { at, words }) => (at, words),
        })
        .collect();
    let written = [RawSpelling { hash, definition }].into_iter().chain(variants);
    let spellings = written.map(|one| spelling(&one, &ignore, expected));
    Ok(Locked { spellings: spellings.collect::<Result<_, _>>()?, ignore, is_conditional })
}

/// Reads one spelling. What was reviewed is the definition, so the sum has to be that of it.
fn spelling(
    raw: &RawSpelling,
    ignore: &[Hole],
    expected: &[(&str, &str)],
) -> Result<Spelling, Fault> {
    let RawSpelling { hash, definition } = raw;
    let definition = Raw::encode(definition);
    let (said, text) = (definition.said(ignore), definition.said(&[]));
    let text = text.and_then(|text| String::from_utf8(text).ok());
    let (said, text) = said.zip(text).ok_or_else(unclear)?;
    let sum = Sum::of(&said);
    if Sum::read(hash) != Some(sum) {
        let why = format!(
            "its `hash` is not that of its `definition`: expected `{sum}`, found `{}`",
            seen::named(hash, 80)
        );
        return Err(Fault { at: String::new(), why });
    }
    for (key, name) in expected {
        let found = definition.member(key).and_then(|found| found.text().map(Cow::into_owned));
        if found.as_deref() != Some(*name) {
            let why = format!("its definition is of another `{key}`");
            return Err(Fault { at: String::new(), why });
        }
    }
    Ok(Spelling { sum, text: text.into() })
}

/// Writes a lock: the same lock as the same bytes.
pub fn write_lock(lock: &Lock) -> String {
    let servers = lock.servers.iter().map(|(name, server)| (name.clone(), written(server)));
    let servers: serde_json::Map<String, Value> = servers.collect();
    // `definition`s are put in as text, which keeps their numbers.
    let whole = json!({"version": VERSION, "servers": servers});
    let mut text = String::new();
    write_value(&whole, 0, &mut text);
    text.push('\n');
    text
}

/// The members of a server, each text of JSON under the mark of [`verbatim`].
fn written(server: &LockedServer) -> Value {
    let LockedServer { launch, package, info, instructions, tools, prompts, templates } = server;
    let mut members = serde_json::Map::new();
    let mut put = |key: &str, value: Value| _ = members.insert(key.to_owned(), value);
    put("launch", verbatim(launch));
    if let Some(LockedPackage { ecosystem, name, version, integrity }) = package {
        let (registry, mut members) = (ecosystem.as_str(), json!({"name": name}));
        members["registry"] = registry.into();
        for (key, known) in [("version", version), ("integrity", integrity)] {
            if let Some(known) = known {
                members[key] = known.as_str().into();
            }
        }
        put("package", members);
    }
    if let Some(info) = info {
        put("serverInfo", verbatim(info));
    }
    if let Some(said) = instructions {
        put("instructions", written_locked(said));
    }
    for (key, kind) in [("tools", tools), ("prompts", prompts), ("resourceTemplates", templates)] {
        if !kind.is_empty() {
            let all = kind.iter().map(|(name, one)| (name.clone(), written_locked(one)));
            put(key, Value::Object(all.collect()));
        }
    }
    Value::Object(members)
}

fn written_locked(locked: &Locked) -> Value {
    let Locked { spellings, ignore, is_conditional } = locked;
    let mut members = serde_json::Map::new();
    let spelled = |one: &Spelling| {
        let mut members = serde_json::Map::new();
        members.insert("hash".to_owned(), one.sum.to_string().into());
        members.insert("definition".to_owned(), verbatim(&one.text));
        members
    };
    if let Some((first, others)) = spellings.split_first() {
        members = spelled(first);
        if !others.is_empty() {
            let others = others.iter().map(|one| Value::Object(spelled(one)));
            members.insert("variants".to_owned(), Value::Array(others.collect()));
        }
    }
    if !ignore.is_empty() {
        let holes = ignore.iter().map(|(at, words)| match &words[..] {
            [] => json!(at),
            words => json!({"at": at, "words": words}),
        });
        members.insert("ignore".to_owned(), Value::Array(holes.collect()));
    }
    if *is_conditional {
        members.insert("when".to_owned(), MORE.into());
    }
    Value::Object(members)
}

/// The key of an object that stands for a text of JSON. No server has it: its objects are such texts.
const VERBATIM: &str = "\u{0}verbatim";

fn verbatim(text: &str) -> Value {
    json!({ VERBATIM: text })
}

fn write_value(value: &Value, indent: usize, text: &mut String) {
    let line = |text: &mut String, indent: usize| {
        text.push('\n');
        text.extend(std::iter::repeat_n(' ', indent));
    };
    match value {
        Value::Object(members) if members.is_empty() => text.push_str("{}"),
        Value::Object(members) => {
            if let Some(Value::String(json)) = members.get(VERBATIM) {
                let raw = serde_json::from_str::<Box<RawValue>>(json).ok();
                let lines = raw.and_then(|raw| Raw::encode(&raw).on_lines(indent, seen::is_unseen));
                text.push_str(lines.as_deref().unwrap_or(json));
                return;
            }
            text.push('{');
            for (at, (key, member)) in members.iter().enumerate() {
                text.push_str(if at > 0 { "," } else { "" });
                line(text, indent + 2);
                let key = Raw::of_text(key).on_lines(0, seen::is_unseen).unwrap_or_default();
                text.push_str(&key);
                text.push_str(": ");
                write_value(member, indent + 2, text);
            }
            line(text, indent);
            text.push('}');
        }
        Value::Array(items) if items.iter().any(Value::is_object) || items.len() > 1 => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                text.push_str(if at > 0 { "," } else { "" });
                line(text, indent + 2);
                write_value(item, indent + 2, text);
            }
            line(text, indent);
            text.push(']');
        }
        other => text.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests;
