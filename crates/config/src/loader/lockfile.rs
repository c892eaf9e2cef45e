//! The lockfile `workbench.lock` next to a configuration: parsing, verification and rendering.
//!
//! Parsing is strict: one unknown member rejects the file. A lockfile that is only partly
//! understood would give no protection.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::loader::input_problem::InputProblem;
use mcp_workbench_names::untrusted_text;
use mcp_workbench_settings::{
    DefinitionDigest, DefinitionVariant, Ecosystem, IgnoreRule, LockedDefinition,
    LockedDefinitions, LockedPackage, LockedServer, Lockfile,
};
use mcp_workbench_wire::json::RawJson;
use mcp_workbench_wire::json::definition_text::{canonical_definition, to_pretty_string};

const FILE: &str = "workbench.lock";
const VERSION: u64 = 1;
/// The `when` of definitions that are shown only to clients with additional capabilities.
const CLIENT_CAPABILITIES: &str = "clientCapabilities";

/// Returns the path of the lockfile for a configuration file, or for a catalog folder.
pub fn lockfile_path(config: &Path, is_folder: bool) -> PathBuf {
    let folder = if is_folder { config } else { config.parent().unwrap_or(Path::new("/")) };
    folder.join(FILE)
}

fn problem(reason: impl Into<String>) -> InputProblem {
    let hint = "restore the file from version control, or recreate it with `mcp-workbench lock`";
    InputProblem { reason: reason.into(), hint: Some(hint) }
}

#[derive(Deserialize)]
struct LockfileHeader {
    version: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLockfile {
    #[expect(dead_code, reason = "read before the other members")]
    version: Value,
    servers: BTreeMap<String, RawLockedServer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct RawLockedServer {
    launch: Box<RawValue>,
    package: Option<RawPackage>,
    server_info: Option<Box<RawValue>>,
    instructions: Option<RawLockedDefinition>,
    #[serde(default)]
    tools: BTreeMap<String, RawLockedDefinition>,
    #[serde(default)]
    prompts: BTreeMap<String, RawLockedDefinition>,
    #[serde(default)]
    resource_templates: BTreeMap<String, RawLockedDefinition>,
    resources: Option<BTreeMap<String, RawLockedDefinition>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPackage {
    registry: String,
    name: String,
    version: Option<String>,
    integrity: Option<String>,
    contents: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLockedDefinition {
    hash: String,
    definition: Box<RawValue>,
    #[serde(default)]
    ignore: Vec<RawIgnoreRule>,
    #[serde(default)]
    variants: Vec<RawDefinitionVariant>,
    when: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDefinitionVariant {
    hash: String,
    definition: Box<RawValue>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawIgnoreRule {
    Whole(String),
    Words(RawWords),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWords {
    at: String,
    words: Vec<usize>,
}

/// Parses and verifies a lockfile.
///
/// # Errors
///
/// Fails on invalid JSON, an unsupported version, an unknown or duplicate member, or a `hash` that
/// doesn't match its `definition`.
pub fn parse_lockfile(text: &str) -> Result<Lockfile, InputProblem> {
    let whole: Box<RawValue> = serde_json::from_str(text).map_err(|error| {
        let is_merge = ["<<<<<<<", "=======", ">>>>>>>"].iter().any(|mark| text.contains(mark));
        let why = if is_merge { " (it contains merge conflict markers)" } else { "" };
        problem(format!("invalid JSON: {error}{why}"))
    })?;
    let head: LockfileHeader = serde_json::from_str(whole.get())
        .map_err(|error| problem(format!("unexpected content: {error}")))?;
    match &head.version {
        None => return Err(problem("no `version`")),
        Some(version) if *version == VERSION => {}
        Some(Value::Number(version)) if version.as_u64().is_some_and(|v| v > VERSION) => {
            return Err(InputProblem {
                reason: format!(
                    "version {version} is newer than version {VERSION}, which this release supports"
                ),
                hint: Some("update mcp-workbench, or recreate the file with `mcp-workbench lock`"),
            });
        }
        Some(version) => {
            return Err(problem(format!("expected version {VERSION}, found {version}")));
        }
    }
    if RawJson::encode(&whole).canonical(usize::MAX).is_none() {
        return Err(problem("duplicate member, or a string with invalid Unicode"));
    }
    let RawLockfile { version: _, servers } = serde_json::from_str(whole.get())
        .map_err(|error| problem(format!("unexpected content: {error}")))?;
    let read = |(name, server): (String, RawLockedServer)| {
        let read = self::server(server).map_err(|MemberError { at, why }| {
            problem(format!("`servers.{}{at}`: {why}", untrusted_text::display_name(&name, 80)))
        })?;
        Ok((name, Arc::new(read)))
    };
    Ok(Lockfile { servers: servers.into_iter().map(read).collect::<Result<_, InputProblem>>()? })
}

struct MemberError {
    at: String,
    why: String,
}

fn server(raw: RawLockedServer) -> Result<LockedServer, MemberError> {
    let RawLockedServer {
        launch,
        package,
        server_info,
        instructions,
        tools,
        prompts,
        resource_templates,
        resources,
    } = raw;
    let one_line = |value: &RawValue| -> Result<Arc<str>, MemberError> {
        let text = RawJson::encode(&value).canonical(usize::MAX);
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
        resources: resources.map(|all| kind(all, "resources", "uri")).transpose()?,
    })
}

fn package(raw: RawPackage) -> Result<LockedPackage, MemberError> {
    let RawPackage { registry, name, version, integrity, contents } = raw;
    let known = Ecosystem::ALL.into_iter().find(|known| known.as_str() == registry);
    let ecosystem = known.ok_or_else(|| {
        let words = Ecosystem::ALL.map(Ecosystem::as_str).join("`, `");
        let why = format!(
            "expected one of `{words}`, found `{}`",
            untrusted_text::display_name(&registry, 40)
        );
        MemberError { at: ".registry".to_owned(), why }
    })?;
    Ok(LockedPackage { ecosystem, name, version, integrity, contents })
}

fn kind(
    raw: BTreeMap<String, RawLockedDefinition>,
    member: &str,
    key: &str,
) -> Result<LockedDefinitions, MemberError> {
    let read = |(name, raw): (String, RawLockedDefinition)| {
        let locked = locked(raw, &[(key, &name)]);
        let place = || format!("{member}.{}", untrusted_text::display_name(&name, 80));
        Ok((name.clone(), locked.map_err(|fault| fault.within(&place()))?))
    };
    raw.into_iter().map(read).collect()
}

impl MemberError {
    fn within(self, place: &str) -> Self {
        Self { at: format!(".{place}{}", self.at), why: self.why }
    }
}

fn unclear() -> MemberError {
    MemberError { at: String::new(), why: "ambiguous JSON".to_owned() }
}

fn locked(
    raw: RawLockedDefinition,
    expected: &[(&str, &str)],
) -> Result<LockedDefinition, MemberError> {
    let RawLockedDefinition { hash, definition, ignore, variants, when } = raw;
    let is_conditional = match when.as_deref() {
        None => false,
        Some(CLIENT_CAPABILITIES) => true,
        Some(other) => {
            let why = format!(
                "expected `{CLIENT_CAPABILITIES}`, found `{}`",
                untrusted_text::display_name(other, 40)
            );
            return Err(MemberError { at: ".when".to_owned(), why });
        }
    };
    let ignore: Vec<IgnoreRule> = ignore
        .into_iter()
        .map(|hole| match hole {
            RawIgnoreRule::Whole(at) => (at, Vec::new()),
            RawIgnoreRule::Words(RawWords { at, words }) => (at, words),
        })
        .collect();
    let written = [RawDefinitionVariant { hash, definition }].into_iter().chain(variants);
    let spellings = written.map(|one| spelling(&one, &ignore, expected));
    Ok(LockedDefinition { spellings: spellings.collect::<Result<_, _>>()?, ignore, is_conditional })
}

/// Reads one variant. Reviewers see only the definition, so its hash must match.
fn spelling(
    raw: &RawDefinitionVariant,
    ignore: &[IgnoreRule],
    expected: &[(&str, &str)],
) -> Result<DefinitionVariant, MemberError> {
    let RawDefinitionVariant { hash, definition } = raw;
    let definition = RawJson::encode(definition);
    let (said, text) =
        (canonical_definition(&definition, ignore), canonical_definition(&definition, &[]));
    let text = text.and_then(|text| String::from_utf8(text).ok());
    let (said, text) = said.zip(text).ok_or_else(unclear)?;
    let digest = DefinitionDigest::of(&said);
    if DefinitionDigest::read(hash) != Some(digest) {
        let why = format!(
            "`hash` does not match `definition`: expected `{digest}`, found `{}`",
            untrusted_text::display_name(hash, 80)
        );
        return Err(MemberError { at: String::new(), why });
    }
    for (key, name) in expected {
        let found =
            definition.member(key).and_then(|found| found.decode_string().map(Cow::into_owned));
        if found.as_deref() != Some(*name) {
            let why = format!("`definition` has a different `{key}`");
            return Err(MemberError { at: String::new(), why });
        }
    }
    Ok(DefinitionVariant { digest, text: text.into() })
}

/// Renders a lockfile. Equal lockfiles give identical bytes.
pub fn render_lockfile(lock: &Lockfile) -> String {
    let servers = lock.servers.iter().map(|(name, server)| (name.clone(), server_to_json(server)));
    let servers: serde_json::Map<String, Value> = servers.collect();
    // Definitions are inserted as JSON text, which preserves the spelling of numbers.
    let whole = json!({"version": VERSION, "servers": servers});
    let mut text = String::new();
    write_value(&whole, 0, &mut text);
    text.push('\n');
    text
}

/// Returns the members of a server. JSON texts are wrapped by [`verbatim`].
fn server_to_json(server: &LockedServer) -> Value {
    let LockedServer { launch, package, info, instructions, tools, prompts, templates, resources } =
        server;
    let mut members = serde_json::Map::new();
    let mut put = |key: &str, value: Value| _ = members.insert(key.to_owned(), value);
    put("launch", verbatim(launch));
    if let Some(LockedPackage { ecosystem, name, version, integrity, contents }) = package {
        let (registry, mut members) = (ecosystem.as_str(), json!({"name": name}));
        members["registry"] = registry.into();
        for (key, known) in [("version", version), ("integrity", integrity), ("contents", contents)]
        {
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
        put("instructions", item_to_json(said));
    }
    for (key, kind) in [("tools", tools), ("prompts", prompts), ("resourceTemplates", templates)] {
        if !kind.is_empty() {
            let all = kind.iter().map(|(name, one)| (name.clone(), item_to_json(one)));
            put(key, Value::Object(all.collect()));
        }
    }
    // Written even if empty: without this member, resources aren't compared.
    if let Some(resources) = resources {
        let all = resources.iter().map(|(uri, one)| (uri.clone(), item_to_json(one)));
        put("resources", Value::Object(all.collect()));
    }
    Value::Object(members)
}

fn item_to_json(locked: &LockedDefinition) -> Value {
    let LockedDefinition { spellings, ignore, is_conditional } = locked;
    let mut members = serde_json::Map::new();
    let spelled = |one: &DefinitionVariant| {
        let mut members = serde_json::Map::new();
        members.insert("hash".to_owned(), one.digest.to_string().into());
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
        members.insert("when".to_owned(), CLIENT_CAPABILITIES.into());
    }
    Value::Object(members)
}

/// Marks an object that represents raw JSON text. It can't clash with a server's members, because
/// those only appear inside such text.
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
                let lines = raw.and_then(|raw| {
                    to_pretty_string(&RawJson::encode(&raw), indent, untrusted_text::is_invisible)
                });
                text.push_str(lines.as_deref().unwrap_or(json));
                return;
            }
            text.push('{');
            for (at, (key, member)) in members.iter().enumerate() {
                text.push_str(if at > 0 { "," } else { "" });
                line(text, indent + 2);
                let key =
                    to_pretty_string(&RawJson::from_text(key), 0, untrusted_text::is_invisible)
                        .unwrap_or_default();
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
