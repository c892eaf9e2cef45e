//! Client capabilities, reduced to the bits that servers act on.
//!
//! Servers adapt to their client's capabilities, so agents with different capabilities get separate
//! processes. Clients can spell equal capabilities in endless ways. Comparing bits, and sending
//! them in one canonical spelling, avoids a process per spelling.

use serde_json::{Map, Value, json};

use mcp_workbench_wire::json::{Member, RawJson};

const SAMPLING: u16 = 1;
const SAMPLING_TOOLS: u16 = 1 << 1;
const SAMPLING_CONTEXT: u16 = 1 << 2;
const ELICITATION_FORM: u16 = 1 << 3;
const ELICITATION_URL: u16 = 1 << 4;
const ROOTS: u16 = 1 << 5;
const ROOTS_CHANGE: u16 = 1 << 6;
/// Sampling and elicitation as tasks (2025-11-25, basic/utilities/tasks).
const SAMPLING_TASKS: u16 = 1 << 7;
const ELICITATION_TASKS: u16 = 1 << 8;
const TASKS_LIST: u16 = 1 << 9;
const TASKS_CANCEL: u16 = 1 << 10;
/// Tasks as call results (2026-07-28).
const TASKS_EXTENSION: u16 = 1 << 11;
/// MCP Apps: HTML pages of servers.
const APPS_EXTENSION: u16 = 1 << 12;

const TASKS_NAME: &str = "io.modelcontextprotocol/tasks";
/// The name of the extension MCP Apps.
pub const APPS_NAME: &str = "io.modelcontextprotocol/ui";
/// The only page type.
const APPS_TYPE: &str = "text/html;profile=mcp-app";

/// A set of client capabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClientCapabilities(u16);

impl ClientCapabilities {
    pub const NONE: Self = Self(0);

    /// Returns the capabilities as a bit set. Stored keys contain it, so bits must keep their meaning.
    pub(crate) fn bits(self) -> u16 {
        self.0
    }

    /// Reads `ClientCapabilities` (MCP). Members that aren't objects count as absent.
    pub fn from_raw(capabilities: &RawJson) -> Self {
        let mut class = Self::NONE;
        for (key, said) in objects(capabilities) {
            match &*key {
                "sampling" => {
                    class.add(SAMPLING);
                    class.add_if(SAMPLING_TOOLS, has(&said, "tools"));
                    class.add_if(SAMPLING_CONTEXT, has(&said, "context"));
                }
                "elicitation" => {
                    let is_url = has(&said, "url");
                    class.add_if(ELICITATION_URL, is_url);
                    // Without a mode, assume form mode: older revisions had no other.
                    class.add_if(ELICITATION_FORM, has(&said, "form") || !is_url);
                }
                "roots" => {
                    class.add(ROOTS);
                    let says_so = said.member("listChanged");
                    class.add_if(ROOTS_CHANGE, says_so.is_some_and(|it| it.as_bytes() == b"true"));
                }
                "tasks" => class.add_tasks(&said),
                "extensions" => {
                    class.add_if(TASKS_EXTENSION, has(&said, TASKS_NAME));
                    let apps = object(&said, APPS_NAME).and_then(|apps| apps.member("mimeTypes"));
                    let types = apps.and_then(|types| types.parse::<Vec<String>>().ok());
                    let shows = types.is_some_and(|types| types.iter().any(|t| t == APPS_TYPE));
                    class.add_if(APPS_EXTENSION, shows);
                }
                _ => {}
            }
        }
        class
    }

    fn add_tasks(&mut self, said: &RawJson) {
        let requests = object(said, "requests");
        let takes = |kind: &str, method: &str| {
            let of_kind = requests.as_ref().and_then(|requests| object(requests, kind));
            of_kind.is_some_and(|of_kind| has(&of_kind, method))
        };
        let is_asked = [takes("sampling", "createMessage"), takes("elicitation", "create")];
        self.add_if(SAMPLING_TASKS, is_asked[0]);
        self.add_if(ELICITATION_TASKS, is_asked[1]);
        // Without requests as tasks, there is nothing to list or cancel.
        let has_some = is_asked.contains(&true);
        self.add_if(TASKS_LIST, has_some && has(said, "list"));
        self.add_if(TASKS_CANCEL, has_some && has(said, "cancel"));
    }

    fn add(&mut self, bit: u16) {
        self.0 |= bit;
    }

    fn add_if(&mut self, bit: u16, is_so: bool) {
        if is_so {
            self.add(bit);
        }
    }

    fn is(self, bit: u16) -> bool {
        self.0 & bit != 0
    }

    pub fn samples(self) -> bool {
        self.is(SAMPLING)
    }

    /// Returns `true` for form or URL elicitation.
    pub fn elicits(self) -> bool {
        self.is(ELICITATION_FORM | ELICITATION_URL)
    }

    pub fn has_url_elicitation(self) -> bool {
        self.is(ELICITATION_URL)
    }

    /// Returns `true` if the client shows the pages of MCP Apps.
    pub fn has_apps(self) -> bool {
        self.is(APPS_EXTENSION)
    }

    pub fn has_roots(self) -> bool {
        self.is(ROOTS)
    }

    #[must_use]
    pub fn without_roots(self) -> Self {
        Self(self.0 & !(ROOTS | ROOTS_CHANGE))
    }

    /// Encodes the capabilities in the spelling that the oldest servers understand.
    pub fn to_raw(self) -> RawJson {
        let nothing = || Value::Object(Map::new());
        let some = |members: &[(&str, u16)]| {
            let said = members.iter().filter(|(_, bit)| self.is(*bit));
            Value::Object(said.map(|(key, _)| ((*key).to_owned(), nothing())).collect())
        };
        let mut all = Map::new();
        if self.is(ROOTS_CHANGE) {
            all.insert("roots".to_owned(), json!({ "listChanged": true }));
        } else if self.has_roots() {
            all.insert("roots".to_owned(), nothing());
        }
        if self.samples() {
            let members = [("context", SAMPLING_CONTEXT), ("tools", SAMPLING_TOOLS)];
            all.insert("sampling".to_owned(), some(&members));
        }
        if self.is(ELICITATION_URL) {
            let members = [("form", ELICITATION_FORM), ("url", ELICITATION_URL)];
            all.insert("elicitation".to_owned(), some(&members));
        } else if self.elicits() {
            all.insert("elicitation".to_owned(), nothing());
        }
        if self.is(SAMPLING_TASKS | ELICITATION_TASKS) {
            let mut tasks = some(&[("list", TASKS_LIST), ("cancel", TASKS_CANCEL)]);
            tasks["requests"] = json!({});
            if self.is(SAMPLING_TASKS) {
                tasks["requests"]["sampling"] = json!({ "createMessage": {} });
            }
            if self.is(ELICITATION_TASKS) {
                tasks["requests"]["elicitation"] = json!({ "create": {} });
            }
            all.insert("tasks".to_owned(), tasks);
        }
        let mut extensions = Map::new();
        if self.is(TASKS_EXTENSION) {
            extensions.insert(TASKS_NAME.to_owned(), nothing());
        }
        if self.is(APPS_EXTENSION) {
            extensions.insert(APPS_NAME.to_owned(), json!({ "mimeTypes": [APPS_TYPE] }));
        }
        if !extensions.is_empty() {
            all.insert("extensions".to_owned(), extensions.into());
        }
        RawJson::encode(&all)
    }
}

fn objects(raw: &RawJson) -> impl Iterator<Item = Member> {
    let members = raw.members().unwrap_or_default().into_iter();
    members.filter(|(_, value)| value.as_bytes().first() == Some(&b'{'))
}

fn object(raw: &RawJson, key: &str) -> Option<RawJson> {
    objects(raw).find_map(|(name, value)| (name == key).then_some(value))
}

fn has(raw: &RawJson, key: &str) -> bool {
    object(raw, key).is_some()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn class(text: &str) -> ClientCapabilities {
        ClientCapabilities::from_raw(&RawJson::encode(
            &serde_json::from_str::<Value>(text).unwrap(),
        ))
    }

    fn told(text: &str) -> Value {
        class(text).to_raw().parse().unwrap()
    }

    #[test]
    fn equal_capabilities_are_equal_in_every_spelling() {
        let forms = class(r#"{"elicitation": {}, "sampling": {}}"#);
        for same in [
            r#"{"sampling":{},"elicitation":{"form":{}}}"#,
            r#"{"sampling": {"unheard": {}}, "elicitation": {"form": {"applyDefaults": true}}}"#,
            r#"{"sampling":{"tools":false},"elicitation":{},"roots":null,"experimental":{"a":{}}}"#,
            r#"{"sampling":{},"elicitation":{},"extensions":{"example.com/odd":{}},"tasks":{}}"#,
        ] {
            assert_eq!(class(same), forms, "{same}");
        }
        for other in [
            r#"{"elicitation": {}}"#,
            r#"{"elicitation": {}, "sampling": {"tools": {}}}"#,
            r#"{"elicitation": {"form": {}, "url": {}}, "sampling": {}}"#,
            r#"{"elicitation": {}, "sampling": {}, "roots": {}}"#,
            r#"{"elicitation": {}, "sampling": true}"#,
        ] {
            assert_ne!(class(other), forms, "{other}");
        }
    }

    #[test]
    fn to_raw_round_trips_and_drops_unknown_capabilities() {
        for same in [
            json!({}),
            json!({ "sampling": {} }),
            json!({ "sampling": { "context": {}, "tools": {} } }),
            json!({ "elicitation": {} }),
            json!({ "elicitation": { "url": {} } }),
            json!({ "elicitation": { "form": {}, "url": {} } }),
            json!({ "roots": {} }),
            json!({ "roots": { "listChanged": true }, "sampling": {} }),
            json!({ "extensions": { TASKS_NAME: {}, APPS_NAME: { "mimeTypes": [APPS_TYPE] } } }),
            json!({
                "elicitation": {},
                "tasks": { "requests": { "elicitation": { "create": {} } } },
            }),
            json!({
                "sampling": {},
                "tasks": {
                    "list": {},
                    "cancel": {},
                    "requests": { "sampling": { "createMessage": {} } },
                },
            }),
        ] {
            assert_eq!(told(&same.to_string()), same);
        }
        let nothing = json!({ "tasks": { "list": {}, "cancel": {}, "requests": {} } });
        assert_eq!(told(&nothing.to_string()), json!({}));
        assert_eq!(class("[]"), ClientCapabilities::NONE);
        let roots = class(r#"{"roots": {"listChanged": true}, "sampling": {}}"#);
        assert_eq!(roots.without_roots(), class(r#"{"sampling": {}}"#));
    }
}
