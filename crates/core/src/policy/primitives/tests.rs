use std::collections::BTreeMap;
use std::path::Path;

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::catalog::Definition;
use crate::policy::{Policies, ResourceOrPrompt};
use mcp_workbench_names::{AgentName, ServerName, ServerRef, ToolboxName};
use mcp_workbench_wire::json::RawJson;

fn listing() -> Arc<Listing> {
    let all = |entries: &[Value]| -> Vec<RawJson> { entries.iter().map(RawJson::encode).collect() };
    let (resources, _) = Definition::read_all(all(&[
        json!({"uri": "file:///docs/a.md", "name": "a"}),
        json!({"uri": "file:///docs/.env", "name": "env"}),
        json!({"uri": "file:///keys/id", "name": "key"}),
        json!({"uri": "db://rows?limit=3", "name": "rows"}),
    ]));
    let (templates, _) = Definition::read_all(all(&[
        json!({"uriTemplate": "note://{id}", "name": "note"}),
        json!({"uriTemplate": "note://{id}/secret", "name": "secret"}),
    ]));
    let (prompts, _) =
        Definition::read_all(all(&[json!({"name": "sum"}), json!({"name": "plan"})]));
    Arc::new(Listing { resources, templates, prompts, ..Listing::default() })
}

fn at() -> ServerRef {
    ServerRef { toolbox: ToolboxName::new("files"), server: ServerName::new("files") }
}

fn policies(filters: &Value, rules: &Value) -> Policies {
    let mut file = rules.clone();
    file["mcpServers"]["files"] = filters.clone();
    file["mcpServers"]["files"]["command"] = "x".into();
    let env = BTreeMap::<String, String>::new();
    let loaded =
        mcp_workbench_config::parse(&file.to_string(), Path::new("x.json"), Path::new("/"), &env);
    Policies::new(Arc::new(loaded.unwrap_or_else(|report| panic!("{report}")).config))
}

/// Returns the URIs that pass a server's `resourceFilters`.
fn read<'a>(filters: &[&str], uris: &[&'a str]) -> Vec<&'a str> {
    let policies = policies(&json!({"resourceFilters": filters}), &json!({}));
    let (policy, listing) = (policies.for_agent(None), listing());
    let may_read = |uri: &&&str| policy.admit_resource(&at(), uri, &listing).is_ok();
    uris.iter().filter(may_read).copied().collect()
}

#[test]
fn permitted_primitives_are_those_that_can_be_read() {
    for filters in [
        &["file:///docs/*", "!*.env"][..],
        &["!key"],
        &["rows", "note"],
        &["!note://*"],
        &["*"],
        &["!*"],
        &["note://{id}"],
    ] {
        let policies = policies(&json!({"resourceFilters": filters}), &json!({}));
        let (policy, listing) = (policies.for_agent(None), listing());
        let primitives = policy.permitted_primitives(&at(), &listing);
        let resources = primitives.resources.unwrap_or_else(|| listing.resources.clone());
        let templates = primitives.templates.unwrap_or_else(|| listing.templates.clone());
        let shown: Vec<_> = resources.iter().map(|one| one.uri.clone()).collect();
        let shown = [shown, templates.iter().map(|one| one.uri.clone()).collect()].concat();
        let all = listing.resources.iter().map(|one| one.uri.clone());
        let all = all.chain(listing.templates.iter().map(|one| one.uri.clone()));
        let may_read = |uri: &String| policy.admit_resource(&at(), uri, &listing).is_ok();
        assert_eq!(shown, all.filter(may_read).collect::<Vec<_>>(), "{filters:?}");
    }
}

#[test]
fn resource_filters_match_uris_and_names() {
    let all = ["file:///docs/a.md", "file:///docs/.env", "file:///keys/id", "db://rows?limit=3"];
    assert_eq!(read(&[], &all), all);
    assert_eq!(read(&["file:///docs/*", "!*.env"], &all), all[..1]);
    assert_eq!(read(&["a", "rows"], &all), [all[0], all[3]]);
    assert_eq!(read(&["!key", "!env"], &all), [all[0], all[3]]);
    assert_eq!(read(&["db://rows?limit=3"], &all), all[3..]);
}

// invariant: forbidden-equals-missing
#[test]
fn denies_a_uri_in_every_equivalent_spelling() {
    let spellings = [
        "FILE:///keys/id",
        "file:/keys/id",
        "file://localhost/keys/id",
        "file:///docs/../keys/id",
        "file:///docs/%2E%2e/keys/id",
        "file:///%6b%65ys/id",
        "file:///%256beys/id",
        "file:///keys%2fid",
        "file:///keys\\id",
        "file:///KEYS/ID",
        "file:///keys/id?x",
        "file:///keys/id#x",
        "file:///keys//id/",
        "\tfile:///keys/id",
    ];
    let none: [&str; 0] = [];
    assert_eq!(read(&["!file:///keys/*"], &spellings), none);
    assert_eq!(
        read(&["!key"], &spellings),
        none,
        "the resource's name denies every spelling of its URI"
    );
    assert_eq!(read(&["file:///docs/*"], &spellings), none);
    assert_eq!(read(&["*", "!file:///keys/*"], &spellings), none);
    // Patterns are normalized too, so any of these spellings works as a pattern.
    let is_whole = |pattern: &&&str| !pattern.contains(['\\', '?', '#']) && !pattern.ends_with('/');
    for pattern in spellings.iter().filter(is_whole) {
        assert_eq!(read(&[&format!("!{pattern}")], &["file:///keys/id"]), none, "{pattern}");
    }
}

#[test]
fn template_rules_apply_to_the_uris_it_expands_to() {
    let made = ["note://1", "note://2", "note://1/secret", "note://1%2Fsecret", "other://1"];
    assert_eq!(read(&["!note"], &made), ["other://1"], "every expansion is denied");
    assert_eq!(read(&["!secret"], &made), ["note://1", "note://2", "other://1"]);
    assert_eq!(read(&["note"], &made), ["note://1", "note://2"]);
    assert_eq!(read(&["note://{id}"], &made), ["note://1", "note://2"]);
    assert_eq!(read(&["note", "!note://2"], &made), ["note://1"]);
    assert_eq!(
        read(&["note://*"], &made),
        ["note://1", "note://2", "note://1/secret", "note://1%2Fsecret"]
    );
}

#[test]
fn overrides_precede_exposed_lists_and_the_default_is_all() {
    let rules = json!({
        "exposedTools": {"files": ["*"]},
        "exposedResources": {"files": ["!*/keys/*"]},
        "exposedPrompts": {"files": ["sum"]},
        "agentPolicies": {
            "ann": {"resourceOverrides": {"files": ["*/keys/*"]}, "promptOverrides": {"files": []}},
            "bob": {"extends": "ann", "promptOverrides": {"files": ["*", "!plan"]}},
            "cat": {"extends": ["ann", "dan"]},
            "dan": {},
            "eve": {"allowedServers": []},
        },
        "defaultPolicy": {},
    });
    let policies = policies(&json!({"promptFilters": ["!nothing"]}), &rules);
    let listing = listing();
    let has = |agent: Option<&str>| {
        let agent = agent.map(AgentName::new);
        let policy = policies.for_agent(agent.as_ref());
        let uris = ["file:///keys/id", "file:///docs/a.md"];
        let uris = uris.map(|uri| policy.admit_resource(&at(), uri, &listing).is_ok());
        (uris, ["sum", "plan"].map(|name| policy.admit_prompt(&at(), name).is_ok()))
    };
    assert_eq!(has(None), ([false, true], [true, false]));
    assert_eq!(has(Some("dan")), ([false, true], [true, false]));
    assert_eq!(has(Some("ann")), ([true, false], [false, false]));
    assert_eq!(has(Some("bob")), ([true, false], [true, false]));
    assert_eq!(has(Some("cat")), ([true, true], [true, false]), "the union of all rules");
    assert_eq!(has(Some("eve")), ([false, false], [false, false]));
    let why = |agent: &str, what| {
        let agent = AgentName::new(agent);
        let verdict = policies.explain_primitive(Some(&agent), &at(), what, &listing).unwrap();
        (verdict.is_visible, verdict.rule.map(|rule| rule.to_string()).unwrap_or_default())
    };
    let key = ResourceOrPrompt::Resource("file:///%6beys/id");
    assert_eq!(why("ann", key), (true, "agent_policies.ann.resource_overrides.files".to_owned()));
    assert_eq!(why("dan", key), (false, "exposed_resources.files".to_owned()));
    assert_eq!(why("eve", key), (false, "agent_policies.eve.allowed_servers".to_owned()));
    let plan = ResourceOrPrompt::Prompt("plan");
    assert_eq!(why("bob", plan), (false, "agent_policies.bob.prompt_overrides.files".to_owned()));
    assert_eq!(
        why("bob", ResourceOrPrompt::Prompt("nothing")).1,
        "mcp_servers.files.prompt_filters"
    );
}

#[test]
fn server_is_visible_with_only_resources_or_prompts() {
    let rules = json!({"agentPolicies": {
        "ann": {"resourceOverrides": {"files": ["file:///docs/*"]}},
        "bob": {"resourceOverrides": {"files": ["!file:///docs/*"]}},
        "cat": {"toolOverrides": {"files": []}, "promptOverrides": {"files": ["sum"]}},
        "dan": {"allowedServers": [], "promptOverrides": {"files": ["sum"]}},
    }});
    let policies = policies(&json!({}), &rules);
    let is_there = |agent: &str| {
        let seen = policies.visible_config(Some(&AgentName::new(agent)), None);
        seen.servers().next().is_some()
    };
    assert_eq!(["ann", "bob", "cat", "dan"].map(is_there), [true, false, true, false]);
    let ann = policies.for_agent(Some(&AgentName::new("ann")));
    assert!(!ann.can_ever_grant(&mcp_workbench_names::ToolId {
        toolbox: at().toolbox,
        server: at().server,
        tool: "read".to_owned()
    }));
}

#[test]
fn allows_everything_without_resource_and_prompt_rules() {
    let policies = policies(&json!({}), &json!({"exposedTools": {"files": ["*"]}}));
    let policy = policies.for_agent(None);
    assert!(!policy.restricts_resources(&at()));
    let primitives = policy.permitted_primitives(&at(), &listing());
    assert!(
        primitives.resources.is_none()
            && primitives.templates.is_none()
            && primitives.prompts.is_none()
    );
    let admission = policy.admit_resource(&at(), "any\0thing/..", &listing()).unwrap();
    assert!(admission.resource_scope().is_none());
}

#[test]
fn filters_notifications_by_the_same_rules_as_reads() {
    let policies = policies(&json!({"resourceFilters": ["!*/keys/*"]}), &json!({}));
    let admission = policies.for_agent(None).admit_resource(&at(), "file:///", &listing()).unwrap();
    let hearing = admission.resource_scope().unwrap();
    assert!(hearing.contains("file:///docs/a.md") && !hearing.contains("file:///%6Beys/id"));
}
