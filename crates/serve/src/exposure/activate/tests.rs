use pretty_assertions::assert_eq;

use super::*;
use mcp_workbench_core::toolbox::NamespaceTable;
use mcp_workbench_names::{ServerName, ToolboxName};

/// A primitive whose toolbox is the prefix of its name.
pub(crate) fn item(
    kind: PrimitiveKind,
    name: &str,
    description: &str,
    starts_active: bool,
) -> NamespacedPrimitive {
    let (namespace, own) = name.split_once('_').unwrap_or(("", name));
    let at = ServerRef { toolbox: ToolboxName::new(namespace), server: ServerName::new("srv") };
    let raw = RawJson::encode(&json!({"name": own, "description": description}));
    let mut item = NamespacedPrimitive::new(
        kind,
        name.to_owned(),
        at,
        own,
        Some(description.to_owned()),
        &raw,
    );
    item.starts_active = starts_active;
    item
}

fn all() -> NamespaceTable {
    let mut all = NamespaceTable::default();
    all.push(item(PrimitiveKind::Tool, "pjpd_list_projects", "List", false));
    all.push(item(PrimitiveKind::Tool, "pjpd_get_task", "Get", true));
    all.push(item(PrimitiveKind::Resource, "pjpd_projects://all", "All", false));
    all
}

fn switches(arguments: &Value) -> Result<Vec<Activation>, String> {
    let all = all();
    let change = SwitchRequest::parse(Some(&RawJson::encode(arguments))).unwrap();
    change.switches(&AvailableItems { all: &all, is_there: &|_| true })
}

#[test]
fn switches_are_all_or_nothing() {
    let good = json!({"tools_on": ["pjpd_list_projects"], "resources_on": ["pjpd_projects://all"]});
    assert_eq!(switches(&good).unwrap().len(), 2);
    let bad = json!({"tools_on": ["pjpd_list_projects", "pjpd_list"], "resources_off": ["x"]});
    assert_eq!(
        switches(&bad).unwrap_err(),
        "Unknown names: tool 'pjpd_list', resource 'x'. No changes applied. Similar to \
         'pjpd_list': pjpd_list_projects, pjpd_get_task. Check the catalog in the description of \
         toolman_activate for valid names."
    );
    let kind = json!({"tools_on": ["pjpd_projects://all"]});
    assert!(switches(&kind).unwrap_err().contains(
        "'pjpd_projects://all' is a resource: use resources_on and resources_off for it."
    ));
    let both = json!({"tools_on": ["pjpd_get_task"], "tools_off": ["pjpd_get_task"]});
    assert!(
        switches(&both)
            .unwrap_err()
            .starts_with("Cannot both activate and deactivate 'pjpd_get_task'")
    );
    assert!(switches(&json!({})).unwrap_err().starts_with("All lists are empty."));
}

#[test]
fn switches_persist_and_the_rest_keeps_its_initial_state() {
    let all = all();
    let mut active = ActivePrimitives::default();
    let is_on =
        |active: &ActivePrimitives| all.items.iter().map(|i| active.has(i)).collect::<Vec<_>>();
    assert_eq!(is_on(&active), [false, true, false]);
    let change = json!({"tools_on": ["pjpd_list_projects"], "tools_off": ["pjpd_get_task"]});
    active.apply(switches(&change).unwrap());
    assert_eq!(is_on(&active), [true, false, false]);
    active.apply(switches(&json!({"tools_off": ["pjpd_list_projects"]})).unwrap());
    assert_eq!(is_on(&active), [false, false, false]);
}

#[test]
fn duplicate_names_are_switched_once() {
    let twice = json!({"tools_on": ["pjpd_get_task", "pjpd_get_task"]});
    assert_eq!(switches(&twice).unwrap().len(), 1);
}

#[test]
fn errors_truncate_repeated_names() {
    let names: Vec<_> = (0..20_000).map(|n| format!("no{n}")).collect();
    let many = switches(&json!({"tools_on": names})).unwrap_err();
    assert!(many.contains("tool 'no9', and 19990 more. No changes applied."), "{many}");
    let long = switches(&json!({"resources_on": ["x".repeat(1_000_000)]})).unwrap_err();
    assert!(long.len() < 500, "{} bytes", long.len());
    let key = "y".repeat(1000);
    for wrong in [json!({"tools_on": {"a": key}}), json!({"tools_on": [[key]]}), json!({&key: 1})] {
        let error = SwitchRequest::parse(Some(&RawJson::encode(&wrong))).unwrap_err();
        assert!(error.len() < 400 && error.contains("No changes applied."), "{error}");
    }
}
