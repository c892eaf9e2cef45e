//! Rules that override each other: approval modes of Codex and policies of Gemini CLI.

use serde_json::{Map, Value};

use crate::authoring::import::client_rules::{
    BUILTIN_TOOLS, ClientRule, RuleAction, RuleTarget, Spelling, is_match, literal,
};

/// Reads `default_tools_approval_mode` and `tools.<tool>.approval_mode` of each server.
pub(super) fn codex_rules(file: &Value) -> Vec<ClientRule> {
    let servers = file.get("mcp_servers").and_then(Value::as_object);
    let servers = servers.into_iter().flatten();
    let rules = servers.flat_map(|(server, entry)| {
        let whole = entry.get("default_tools_approval_mode").map(|mode| {
            let place = format!("mcp_servers.{server}.default_tools_approval_mode");
            codex_rule((server, "*"), mode, place, 1)
        });
        let tools = entry.get("tools").and_then(Value::as_object).into_iter().flatten();
        let tools = tools.map(move |(tool, settings)| {
            let place = format!("mcp_servers.{server}.tools.{tool}.approval_mode");
            codex_rule((server, &literal(tool)), settings.get("approval_mode")?, place, 2)
        });
        whole.into_iter().chain(tools).flatten()
    });
    rules.collect()
}

fn codex_rule(
    (server, tool): (&str, &str),
    mode: &Value,
    place: String,
    rank: u32,
) -> Option<ClientRule> {
    let text = mode.as_str()?;
    let action = match text {
        "prompt" => RuleAction::Ask,
        // `auto` lets Codex decide by the tool's annotations, as it does without a rule.
        "auto" => RuleAction::Default,
        "approve" => RuleAction::Allow,
        // `writes` and modes of later versions ask in some cases only.
        _ => RuleAction::Partial,
    };
    let spelling = Spelling::Named { server: server.to_owned(), tool: tool.to_owned() };
    Some(ClientRule { text: text.to_owned(), place, action, spelling, rank, is_limited: false })
}

/// Reads `[[rule]]` of Gemini CLI. Rules of a higher `tier` override those of a lower one.
pub(super) fn policy_rules(list: &Value, tier: u32) -> Vec<ClientRule> {
    let rules = list.as_array().into_iter().flatten().filter_map(Value::as_object);
    rules.flat_map(|rule| policy_rule(rule, tier)).collect()
}

fn policy_rule(rule: &Map<String, Value>, tier: u32) -> Vec<ClientRule> {
    const CONDITIONS: [&str; 7] = [
        "argsPattern",
        "commandPrefix",
        "commandRegex",
        "interactive",
        "modes",
        "subagent",
        "toolAnnotations",
    ];
    let is_set = |key: &&str| match rule.get(*key) {
        None => false,
        Some(Value::Array(list)) => !list.is_empty(),
        Some(_) => true,
    };
    let is_limited = CONDITIONS.iter().any(is_set);
    let action = match rule.get("decision").and_then(Value::as_str) {
        Some("allow") => RuleAction::Allow,
        Some("deny" | "ask_user") if is_limited => RuleAction::Partial,
        Some("deny") => RuleAction::Deny,
        Some("ask_user") => RuleAction::Ask,
        _ => return Vec::new(),
    };
    let priority = rule.get("priority").and_then(Value::as_u64).unwrap_or(0).min(999);
    let rank = tier * 1000 + u32::try_from(priority).unwrap_or(0);
    let server = rule.get("mcpName").and_then(Value::as_str);
    let tools: Vec<&str> = match rule.get("toolName") {
        Some(Value::String(tool)) => vec![tool],
        Some(Value::Array(tools)) => tools.iter().filter_map(Value::as_str).collect(),
        _ => vec!["*"],
    };
    let rules = tools.into_iter().filter_map(|tool| {
        let named = |server: &str, tool: &str| Spelling::Named {
            server: server.to_owned(),
            tool: tool.to_owned(),
        };
        let spelling = match (server, tool, tool.strip_prefix("mcp_*_")) {
            (Some(server), tool, _) => named(server, tool),
            (None, "*" | "mcp_*", _) => named("*", "*"),
            (None, _, Some(tool)) => named("*", tool),
            (None, tool, None) if BUILTIN_TOOLS.contains(&tool) => return None,
            (None, _, None) => Spelling::Any,
        };
        let text = match server {
            Some(server) => format!("{server}: {tool}"),
            None => tool.to_owned(),
        };
        Some(ClientRule { text, place: "rule".to_owned(), action, spelling, rank, is_limited })
    });
    rules.collect()
}

impl ClientRule {
    /// Returns the action of this rule for its `target`, a part of one server. `others` are all
    /// rules of the client about that server. Returns `None` if one of them replaces this rule, and
    /// [`RuleAction::Partial`] if one makes an exception to it.
    pub fn action_among(
        &self,
        target: &RuleTarget,
        others: &[(&Self, &RuleTarget)],
    ) -> Option<RuleAction> {
        let above = others.iter().filter(|(other, _)| self.rank > 0 && other.rank > self.rank);
        let mut action = self.action;
        for (other, other_target) in above {
            let is_weaker = other.action < self.action;
            // A text in a client's own spelling can cover less than its target says.
            let is_exact = matches!(other.spelling, Spelling::Named { .. }) || !is_weaker;
            if !other.is_limited && is_exact && other_target.covers(target) {
                return None;
            }
            if is_weaker && other_target.overlaps(target) {
                action = RuleAction::Partial;
            }
        }
        (action != RuleAction::Default).then_some(action)
    }

    /// Returns `true` if the client applies the rule to the workbench, too, because it is about the
    /// tools of all servers.
    pub fn covers_workbench(&self) -> bool {
        self.target("workbench", &[]) == Some(RuleTarget::Server)
    }
}

impl RuleTarget {
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Server, _) => true,
            (Self::Tools(_), Self::Server) => false,
            (Self::Tools(own), Self::Tools(names)) => {
                names.iter().all(|name| own.iter().any(|own| is_match(own, name)))
            }
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Server, _) | (_, Self::Server) => true,
            (Self::Tools(own), Self::Tools(names)) => own.iter().any(|own| {
                // Two globs can match the same name although neither matches the other.
                let is_glob = |name: &str| name.contains(['*', '?']);
                names.iter().any(|name| {
                    is_match(own, name) || is_match(name, own) || is_glob(own) && is_glob(name)
                })
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::authoring::import::client_rules::rule_sources;

    const TOOLS: [&str; 3] = ["merge", "list_issues", "list_users"];

    /// Returns the rules that apply to the server `github`: `ACTION TOOLS`.
    fn applied(rules: &[ClientRule]) -> Vec<String> {
        let targets = rules.iter().filter_map(|rule| Some((rule, rule.target("github", &TOOLS)?)));
        let targets: Vec<_> = targets.collect();
        let others: Vec<_> = targets.iter().map(|(rule, target)| (*rule, target)).collect();
        let applied = targets.iter().filter_map(|(rule, target)| {
            let tools = match target {
                RuleTarget::Server => "all".to_owned(),
                RuleTarget::Tools(names) => names.join(" "),
            };
            Some(format!("{:?} {tools}", rule.action_among(target, &others)?))
        });
        applied.collect()
    }

    #[test]
    fn approval_modes_of_codex_apply_to_one_server() {
        for (entry, wanted) in [
            (json!({ "tools": { "merge": { "approval_mode": "prompt" } } }), &["Ask merge"][..]),
            (json!({ "tools": { "merge": { "approval_mode": "approve" } } }), &["Allow merge"]),
            (json!({ "tools": { "merge": { "approval_mode": "auto" } } }), &[]),
            (json!({ "tools": { "merge": { "approval_mode": "writes" } } }), &["Partial merge"]),
            (json!({ "tools": { "m*": { "approval_mode": "prompt" } } }), &["Ask m[*]"]),
            (json!({ "tools": { "merge": { "output_token_limit": 9 } } }), &[]),
            (json!({ "tools": ["merge"] }), &[]),
            (json!({ "default_tools_approval_mode": "prompt" }), &["Ask all"]),
            (json!({ "default_tools_approval_mode": "approve" }), &["Allow all"]),
            (json!({ "default_tools_approval_mode": "auto" }), &[]),
            (json!({ "default_tools_approval_mode": 7 }), &[]),
            (
                json!({ "default_tools_approval_mode": "approve",
                    "tools": { "merge": { "approval_mode": "prompt" } } }),
                &["Allow all", "Ask merge"],
            ),
            (
                json!({ "default_tools_approval_mode": "prompt",
                    "tools": { "merge": { "approval_mode": "prompt" } } }),
                &["Ask all", "Ask merge"],
            ),
            (
                json!({ "default_tools_approval_mode": "prompt",
                    "tools": { "merge": { "approval_mode": "auto" } } }),
                &["Partial all"],
            ),
        ] {
            let file = json!({ "mcp_servers": { "github": entry, "other": {
                "default_tools_approval_mode": "prompt" } } });
            let sources = rule_sources("codex");
            let rules: Vec<_> = sources.iter().flat_map(|source| source.read(&file)).collect();
            assert_eq!(applied(&rules), wanted, "{file}");
        }
    }

    #[test]
    fn policies_of_gemini_apply_to_the_tools_they_name() {
        for (rule, wanted) in [
            (json!({ "mcpName": "github", "toolName": "merge", "decision": "deny" }), "Deny merge"),
            (json!({ "mcpName": "github", "decision": "deny" }), "Deny all"),
            (json!({ "mcpName": "*", "toolName": "*", "decision": "ask_user" }), "Ask all"),
            (json!({ "mcpName": "*", "toolName": "list_*", "decision": "deny" }), "Deny list_*"),
            (json!({ "mcpName": "git", "toolName": "merge", "decision": "deny" }), ""),
            (json!({ "toolName": "mcp_github_merge", "decision": "ask_user" }), "Ask merge"),
            (json!({ "toolName": "github__merge", "decision": "deny" }), "Deny merge"),
            (json!({ "toolName": "mcp_github_*", "decision": "deny" }), "Deny all"),
            (json!({ "toolName": "mcp_*_merge", "decision": "deny" }), "Deny merge"),
            (json!({ "toolName": "mcp_*", "decision": "deny" }), "Deny all"),
            (json!({ "toolName": "*", "decision": "deny" }), "Deny all"),
            (json!({ "toolName": "run_shell_command", "decision": "deny" }), ""),
            (json!({ "toolName": "mcp_github_merge", "decision": "allow" }), "Allow merge"),
            (json!({ "toolName": "mcp_github_merge", "decision": "maybe" }), ""),
            (json!({ "toolName": 7, "mcpName": "github", "decision": "deny" }), "Deny all"),
            (json!({ "mcpName": "github", "modes": ["plan"], "decision": "deny" }), "Partial all"),
            (json!({ "mcpName": "github", "modes": [], "decision": "deny" }), "Deny all"),
            (
                json!({ "mcpName": "github", "toolAnnotations": { "readOnlyHint": true },
                    "decision": "ask_user" }),
                "Partial all",
            ),
            (
                json!({ "mcpName": "github", "toolName": "merge", "argsPattern": "x",
                    "decision": "allow" }),
                "Allow merge",
            ),
        ] {
            let wanted: Vec<&str> = [wanted].into_iter().filter(|own| !own.is_empty()).collect();
            assert_eq!(applied(&policy_rules(&json!([rule]), 4)), wanted, "{rule}");
        }
        let list = json!([{ "toolName": ["merge", "list_users"], "mcpName": "github",
            "decision": "deny" }]);
        assert_eq!(applied(&policy_rules(&list, 4)), ["Deny merge", "Deny list_users"]);
    }

    #[test]
    fn policy_of_a_higher_priority_replaces_or_limits_a_lower_one() {
        let rule = |tool: &str, decision: &str, priority: u32| {
            json!({ "mcpName": "github", "toolName": tool, "decision": decision,
                "priority": priority })
        };
        for (rules, wanted) in [
            (vec![rule("merge", "deny", 1), rule("merge", "allow", 2)], &["Allow merge"][..]),
            (vec![rule("merge", "deny", 1), rule("*", "allow", 2)], &["Allow all"]),
            (
                vec![rule("*", "deny", 1), rule("merge", "allow", 2)],
                &["Partial all", "Allow merge"],
            ),
            (vec![rule("*", "ask_user", 1), rule("merge", "deny", 2)], &["Ask all", "Deny merge"]),
            (vec![rule("merge", "deny", 2), rule("*", "allow", 1)], &["Deny merge", "Allow all"]),
            (
                vec![rule("merge", "deny", 1), rule("merge", "allow", 1)],
                &["Deny merge", "Allow merge"],
            ),
            (
                vec![rule("l*s", "deny", 1), rule("*_users", "allow", 2)],
                &["Partial l*s", "Allow *_users"],
            ),
        ] {
            assert_eq!(applied(&policy_rules(&json!(rules), 4)), wanted, "{rules:?}");
        }
        let limited = json!({ "mcpName": "github", "modes": ["yolo"], "decision": "allow",
            "priority": 9 });
        let rules = json!([rule("merge", "deny", 1), limited]);
        assert_eq!(applied(&policy_rules(&rules, 4)), ["Partial merge", "Allow all"]);
        let mut tiers = policy_rules(&json!([rule("merge", "allow", 999)]), 4);
        tiers.extend(policy_rules(&json!([rule("merge", "deny", 0)]), 5));
        assert_eq!(applied(&tiers), ["Deny merge"]);
    }

    #[test]
    fn rule_for_all_servers_still_applies_to_the_workbench() {
        for (rule, wanted) in [
            (json!({ "mcpName": "*", "decision": "ask_user" }), true),
            (json!({ "toolName": "mcp_*", "decision": "ask_user" }), true),
            (json!({ "toolName": "mcp_*_merge", "decision": "ask_user" }), false),
            (json!({ "mcpName": "github", "decision": "ask_user" }), false),
        ] {
            let rules = policy_rules(&json!([rule]), 4);
            assert_eq!(rules.first().unwrap().covers_workbench(), wanted, "{rule}");
        }
    }
}
