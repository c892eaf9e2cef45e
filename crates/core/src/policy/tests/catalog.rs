//! Tests of the catalog as each agent sees it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use pretty_assertions::assert_eq;
use serde_json::json;

use super::{agent, config};
use crate::policy::Policies;
use crate::policy::agent_conditions::server_ref;
use mcp_workbench_names::{ServerName, ToolboxName};
use mcp_workbench_settings::{CatalogCategory, CatalogFolder, CatalogService, Config, ToolReader};

fn category(name: &str, servers: &[(&str, &[&str])]) -> CatalogCategory {
    let services = servers.iter().map(|(server, tools)| CatalogService {
        name: (*server).to_owned(),
        description: String::new(),
        at: server_ref(&ToolboxName::new(server), &ServerName::new(server)),
        tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
        path: String::new(),
        spelled: BTreeMap::new(),
    });
    let services = services.collect();
    CatalogCategory { name: name.to_owned(), description: String::new(), services }
}

/// Lists the tools that an agent sees, as `category/service/tool`.
fn seen(config: &Config, name: &str) -> Vec<String> {
    let policies = Policies::new(Arc::new(config.clone()));
    let seen = policies.visible_config(agent(name).as_ref(), None);
    let categories = seen.navigator.catalog.clone().unwrap().categories.into_iter();
    let services = categories.flat_map(|category| {
        assert!(!category.services.is_empty(), "no category is empty");
        category.services.into_iter().map(move |service| (category.name.clone(), service))
    });
    services
        .flat_map(|(category, service)| {
            assert!(!service.tools.is_empty(), "no service is empty");
            let tools = service.tools.into_iter();
            tools.map(move |tool| format!("{category}/{}/{tool}", service.name))
        })
        .collect()
}

#[test]
fn catalog_contains_only_permitted_tools() {
    let keys = json!({
        "agentPolicies": {
            "reader": { "allowedServers": ["git"], "toolOverrides": { "git": ["read_*"] } },
            "both": { "allowedServers": ["git", "mail"], "toolOverrides": { "git": ["*"], "mail": ["*"] } },
            "elsewhere": { "extends": "both", "when": { "workingDirectory": "/other/**" } },
        },
    });
    let mut config = Config::clone(&config(&["git", "mail"], &keys));
    let categories = vec![
        category("code", &[("git", &["read_file", "push"])]),
        category("talk", &[("mail", &["send"])]),
    ];
    config.navigator.catalog = Some(CatalogFolder {
        folder: PathBuf::from("/c"),
        categories,
        reader: ToolReader(|_, file, _| Err(format!("there is no file `{file}`"))),
    });
    assert_eq!(seen(&config, "both"), ["code/git/read_file", "code/git/push", "talk/mail/send"]);
    assert_eq!(seen(&config, "reader"), ["code/git/read_file"]);
    assert_eq!(seen(&config, "elsewhere"), [] as [String; 0]);
    let toolbox = ToolboxName::new("mail");
    let one =
        Policies::new(Arc::new(config)).visible_config(agent("both").as_ref(), Some(&toolbox));
    let categories = one.navigator.catalog.clone().unwrap().categories;
    assert_eq!(categories, [category("talk", &[("mail", &["send"])])]);
}
