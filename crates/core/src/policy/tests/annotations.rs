//! Rules that name annotations instead of tools.

use pretty_assertions::assert_eq;

use super::*;

const READ: &[ToolAnnotation] = &[ToolAnnotation::ReadOnly];
const WIPE: &[ToolAnnotation] = &[ToolAnnotation::Destructive];

fn traits(claims: &[ToolAnnotation]) -> ToolTraits {
    let annotations = claims.iter().fold(ToolAnnotations::default(), |all, one| all.with(*one));
    ToolTraits { annotations, ..ToolTraits::default() }
}

fn sees(config: &Arc<Config>, name: &str, id: &ToolId, claims: &[ToolAnnotation]) -> bool {
    let policies = Policies::new(Arc::clone(config));
    let policy = policies.for_agent(agent(name).as_ref());
    let is_visible = policy.decide(id, traits(claims), noon).is_ok();
    let explained = policies.explain(agent(name).as_ref(), id, traits(claims), noon());
    assert_eq!(explained.is_some_and(|explained| explained.is_visible), is_visible);
    assert!(!is_visible || policy.can_grant_unlisted(id, noon));
    is_visible
}

#[test]
fn one_list_makes_an_agent_read_only_at_every_server() {
    let keys = json!({"agentPolicies": {
        "reader": {"toolOverrides": {"*": ["@readOnly"], "chat": ["post"]}},
        "heir": {"extends": "reader"},
    }});
    let config = config(&["github", "files", "chat"], &keys);
    for name in ["reader", "heir"] {
        for server in ["github", "files"] {
            assert!(sees(&config, name, &tool(server, "get"), READ), "{name} {server}");
            assert!(!sees(&config, name, &tool(server, "put"), &[]), "{name} {server}");
            assert!(!sees(&config, name, &tool(server, "@readOnly"), WIPE), "{name} {server}");
        }
        assert!(sees(&config, name, &tool("chat", "post"), &[]), "the list of the server");
        assert!(!sees(&config, name, &tool("chat", "get"), READ), "the list of the server");
    }
    assert!(!sees(&config, "", &tool("github", "get"), READ), "no policy for this agent");
}

#[test]
fn every_list_of_tools_takes_annotations() {
    let exposed = config(&["github"], &json!({"exposedTools": {"*": ["github:@readOnly"]}}));
    assert!(sees(&exposed, "", &tool("github", "get"), READ));
    assert!(!sees(&exposed, "", &tool("github", "put"), &[]));
    let filtered = read(&json!({"mcpServers": {"github": {"command": "x",
        "toolFilters": ["@readOnly", "star", "!get_secret"]}}}));
    assert!(sees(&filtered, "", &tool("github", "get"), READ));
    assert!(sees(&filtered, "", &tool("github", "star"), &[]));
    assert!(!sees(&filtered, "", &tool("github", "get_secret"), READ));
    assert!(!sees(&filtered, "", &tool("github", "put"), &[]));
    let keys = json!({"agentPolicies": {"a": {"when": {"tools": ["@destructive"],
        "time": {"between": ["01:00", "02:00"]}}}}, "defaultPolicy": {"allowUnknownTools": true}});
    let timed = config(&["github"], &keys);
    assert!(!sees(&timed, "a", &tool("github", "wipe"), WIPE), "at noon");
    assert!(sees(&timed, "a", &tool("github", "get"), &[]));
}

#[test]
fn confirmation_can_be_required_of_all_but_read_only_tools() {
    let asks = |keys: Value, claims: &[ToolAnnotation]| {
        let policy = Policies::new(config(&["github"], &keys)).for_agent(None);
        let grant = policy.decide(&tool("github", "x"), traits(claims), noon).unwrap();
        grant.permit(None).unwrap().confirmation().is_some()
    };
    let keys = || json!({"requireConfirmation": ["!@readOnly"]});
    assert!(!asks(keys(), READ) && asks(keys(), &[]) && asks(keys(), WIPE));
    let keys = || json!({"dangerousTools": ["@openWorld"]});
    assert!(!asks(keys(), READ) && asks(keys(), &[ToolAnnotation::OpenWorld]));
}

#[test]
fn tools_of_unlisted_servers_can_still_turn_out_to_be_read_only() {
    let keys = json!({"exposedTools": {"*": ["@readOnly"]}});
    let policy = Policies::new(config(&["github"], &keys)).for_agent(None);
    assert!(policy.can_grant_unlisted(&tool("github", "get"), noon));
    assert!(policy.can_ever_grant(&tool("github", "get")));
    assert!(policy.uses_annotations());
    let keys = json!({"exposedTools": {"github": ["get"]}});
    let policy = Policies::new(config(&["github"], &keys)).for_agent(None);
    assert!(!policy.can_grant_unlisted(&tool("github", "put"), noon));
    assert!(!policy.uses_annotations());
}

#[test]
fn misspelled_annotations_are_errors() {
    let env = BTreeMap::<String, String>::new();
    for keys in [
        json!({"dangerousTools": ["@destrutive"]}),
        json!({"exposedTools": {"x": ["x:@read"]}}),
        json!({"mcpServers": {"x": {"command": "x", "toolFilters": ["!@destrutive"]}}}),
    ] {
        let mut file = keys;
        if file.get("mcpServers").is_none() {
            file["mcpServers"] = json!({"x": {"command": "x"}});
        }
        let loaded = mcp_workbench_config::parse(
            &file.to_string(),
            Path::new("x.json"),
            Path::new("/project"),
            &env,
        );
        let text = match loaded {
            Ok(loaded) => loaded.report().map(|report| report.to_string()).unwrap_or_default(),
            Err(report) => report.to_string(),
        };
        assert!(text.contains("is not an annotation"), "{file}: {text}");
    }
}
