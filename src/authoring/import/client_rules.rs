//! Rules of clients about single tools, such as `permissions.deny` of Claude Code.
//!
//! A client matches its rules with the names of its own servers, so they no longer apply to a server
//! that the workbench starts. They become `toolFilters` and `dangerousTools` of the configuration.

use serde_json::Value;

mod ranked;

/// A file with rules, and how to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSource {
    /// The path next to the client's own file, with `/`. Empty for that file itself. `*.toml` as
    /// the last part means all such files in the folder.
    pub file: &'static str,
    /// The keys that lead to the rules.
    keys: &'static [&'static str],
    form: Form,
}

/// How a file has its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    /// A list of texts with this action, or an object with an action for each text.
    Texts(Spelling, RuleAction),
    /// Approval modes in the entries of Codex.
    Codex,
    /// Policies of Gemini CLI, with their tier: 5 of the administrator, 4 of the user, 3 of a
    /// workspace.
    Policies(u32),
}

/// The action of a rule, the strictest last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleAction {
    /// The client calls without asking.
    Allow,
    /// As without a rule.
    Default,
    /// The client asks its user before a call.
    Ask,
    Deny,
    /// A rule for only a part of the client, such as one agent of opencode, or with exceptions.
    /// No setting of the configuration can express it.
    Partial,
}

/// How a client spells a tool of a server in its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Spelling {
    /// `mcp__server__tool`, or `mcp__server` for the whole server.
    Double,
    /// `server_tool`.
    Joined,
    /// `mcp_server_tool`, `server__tool` or `tool`.
    Any,
    /// `Mcp(server:tool)`.
    Call,
    /// `server`.
    Server,
    /// The server, or `*`, and a glob for its tools, whatever the text is.
    Named { server: String, tool: String },
}

/// A rule of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRule {
    /// The rule as the client's file has it.
    pub text: String,
    /// The keys of the rule.
    pub place: String,
    pub action: RuleAction,
    spelling: Spelling,
    /// A rule with a higher rank overrides this one. 0 if none can.
    rank: u32,
    /// `true` if the rule applies only in some cases.
    is_limited: bool,
}

/// The tools of a server that a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleTarget {
    Server,
    /// Names and globs in the syntax of `toolFilters`, without `!`.
    Tools(Vec<String>),
}

/// Tools of the clients whose rules can name a tool without its server.
const BUILTIN_TOOLS: &[&str] = &[
    "activate_skill",
    "ask_user",
    "bash",
    "edit",
    "fetch",
    "glob",
    "google_web_search",
    "grep",
    "grep_search",
    "list_directory",
    "ls",
    "multiedit",
    "read_file",
    "read_many_files",
    "replace",
    "run_shell_command",
    "save_memory",
    "search_file_content",
    "todo_write",
    "view",
    "web_fetch",
    "write",
    "write_file",
    "write_todos",
];

const fn rules(
    file: &'static str,
    keys: &'static [&'static str],
    spelling: Spelling,
    action: RuleAction,
) -> RuleSource {
    RuleSource { file, keys, form: Form::Texts(spelling, action) }
}

const fn policies(file: &'static str, tier: u32) -> RuleSource {
    RuleSource { file, keys: &[], form: Form::Policies(tier) }
}

/// Paths next to the file with the servers, and the settings of administrators.
const CLAUDE_FILES: [&str; 5] = [
    "settings.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
    "/etc/claude-code/managed-settings.json",
    "/Library/Application Support/ClaudeCode/managed-settings.json",
];

/// Returns the sources of rules of a client. A source whose file doesn't exist has none.
pub fn rule_sources(client: &str) -> Vec<RuleSource> {
    use RuleAction::{Ask, Deny, Partial};
    match client {
        "claude-code" => CLAUDE_FILES.iter().flat_map(|file| claude_rules(file)).collect(),
        "opencode" => vec![
            rules("", &["tools"], Spelling::Joined, Deny),
            rules("", &["permission"], Spelling::Joined, Deny),
            rules("", &["agent", "*", "tools"], Spelling::Joined, Partial),
            rules("", &["agent", "*", "permission"], Spelling::Joined, Partial),
            rules("", &["mode", "*", "tools"], Spelling::Joined, Partial),
        ],
        "codex" => vec![RuleSource { file: "", keys: &[], form: Form::Codex }],
        "gemini" => {
            let admin = ADMIN_POLICIES.iter().map(|folder| policies(folder, 5));
            let own = gemini_settings().into_iter().chain([policies("policies/*.toml", 4)]);
            own.chain(admin).collect()
        }
        "qwen" => gemini_settings().to_vec(),
        "cursor" => vec![rules("cli-config.json", &["permissions", "deny"], Spelling::Call, Deny)],
        "amp" => vec![rules("", &["amp.tools.disable"], Spelling::Double, Deny)],
        "crush" => vec![rules("", &["options", "disabled_tools"], Spelling::Any, Deny)],
        "goose" => vec![
            rules("permission.yaml", &["user", "never_allow"], Spelling::Any, Deny),
            rules("permission.yaml", &["user", "ask_before"], Spelling::Any, Ask),
        ],
        _ => Vec::new(),
    }
}

const ADMIN_POLICIES: [&str; 3] = [
    "/etc/gemini-cli/policies/*.toml",
    "/Library/Application Support/GeminiCli/policies/*.toml",
    "C:/ProgramData/gemini-cli/policies/*.toml",
];

fn gemini_settings() -> [RuleSource; 4] {
    use RuleAction::{Ask, Deny};
    [
        rules("", &["tools", "exclude"], Spelling::Any, Deny),
        rules("", &["excludeTools"], Spelling::Any, Deny),
        rules("", &["permissions", "deny"], Spelling::Double, Deny),
        rules("", &["permissions", "ask"], Spelling::Double, Ask),
    ]
}

/// The policies of a project of Gemini CLI, relative to its folder.
pub fn gemini_project_policies() -> RuleSource {
    policies(".gemini/policies/*.toml", 3)
}

/// The rules in a settings file of Claude Code.
pub fn claude_rules(file: &'static str) -> [RuleSource; 4] {
    [
        rules(file, &["permissions", "allow"], Spelling::Double, RuleAction::Allow),
        rules(file, &["permissions", "deny"], Spelling::Double, RuleAction::Deny),
        rules(file, &["permissions", "ask"], Spelling::Double, RuleAction::Ask),
        rules(file, &["deniedMcpServers"], Spelling::Server, RuleAction::Deny),
    ]
}

impl RuleSource {
    /// Reads the rules in the parsed file.
    pub fn read(&self, file: &Value) -> Vec<ClientRule> {
        let (spelling, action) = match &self.form {
            Form::Texts(spelling, action) => (spelling, *action),
            Form::Codex => return ranked::codex_rules(file),
            Form::Policies(tier) => {
                return ranked::policy_rules(file.get("rule").unwrap_or(&Value::Null), *tier);
            }
        };
        let mut values = vec![file];
        for key in self.keys {
            let inner = values.into_iter().flat_map(|value| match (value, *key) {
                (Value::Object(members), "*") => members.values().collect::<Vec<_>>(),
                (value, key) => value.get(key).into_iter().collect(),
            });
            values = inner.collect();
        }
        values.into_iter().flat_map(|value| self.texts(value, spelling, action)).collect()
    }

    fn texts(&self, value: &Value, spelling: &Spelling, of_all: RuleAction) -> Vec<ClientRule> {
        let rule = |text: &str, action| ClientRule {
            text: text.to_owned(),
            place: self.keys.join("."),
            action,
            spelling: spelling.clone(),
            rank: 0,
            is_limited: false,
        };
        match value {
            Value::Array(list) => {
                let texts = list.iter().filter_map(|value| {
                    value.as_str().or_else(|| value.get("serverName")?.as_str())
                });
                texts.map(|text| rule(text, of_all)).collect()
            }
            Value::Object(members) => {
                let switches = members.iter().filter_map(|(text, value)| {
                    let action = strictest_action(value)?;
                    let is_partial = of_all == RuleAction::Partial;
                    Some(rule(text, if is_partial { of_all } else { action }))
                });
                // A partial rule that allows tools matters too: it replaces one that denies them.
                let allowed = members.keys().filter(|_| of_all == RuleAction::Partial);
                switches.chain(allowed.map(|text| rule(text, of_all))).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Reads `false`, `"deny"`, `"ask"`, or an object with such values.
fn strictest_action(value: &Value) -> Option<RuleAction> {
    match value {
        Value::Bool(false) => Some(RuleAction::Deny),
        Value::String(word) if word == "deny" => Some(RuleAction::Deny),
        Value::String(word) if word == "ask" => Some(RuleAction::Ask),
        Value::Object(members) => {
            let actions: Vec<RuleAction> = members.values().filter_map(strictest_action).collect();
            let is_denied = actions.contains(&RuleAction::Deny);
            if is_denied { Some(RuleAction::Deny) } else { actions.first().copied() }
        }
        _ => None,
    }
}

impl ClientRule {
    /// Returns the tools of `server` that the rule is about. `server` is the name in the client's
    /// file; `tools` are the known tools, empty if unknown.
    pub fn target(&self, server: &str, tools: &[&str]) -> Option<RuleTarget> {
        let text = self.text.trim();
        let name = sanitized(server);
        match &self.spelling {
            Spelling::Named { server: of, .. } if of != "*" && sanitized(of) != name => None,
            Spelling::Named { tool, .. } if tool == "*" => Some(RuleTarget::Server),
            Spelling::Named { tool, .. } => {
                let own = tools.iter().filter(|own| is_match(tool, &sanitized(own)));
                let others = own.filter(|own| !is_match(tool, own)).map(|own| literal(own));
                Some(RuleTarget::Tools([tool.clone()].into_iter().chain(others).collect()))
            }
            Spelling::Server => is_match(text, server).then_some(RuleTarget::Server),
            Spelling::Double => {
                // A specifier for arguments, as in `mcp__server__tool(x)`, is ignored.
                let text = text.split('(').next().unwrap_or(text);
                if is_match(text, &format!("mcp__{name}")) {
                    return Some(RuleTarget::Server);
                }
                target_after(text, &format!("mcp__{name}__"), tools)
            }
            Spelling::Joined => target_after(text, &format!("{name}_"), tools),
            Spelling::Call => {
                let inner = text.strip_prefix("Mcp(").and_then(|text| text.strip_suffix(')'))?;
                match inner.split_once(':') {
                    Some((of, tool)) if is_match(of, server) => {
                        target_after(&format!(":{tool}"), ":", tools)
                    }
                    Some(_) => None,
                    None => is_match(inner, server).then_some(RuleTarget::Server),
                }
            }
            Spelling::Any => {
                let text = text.split('(').next().unwrap_or(text);
                let prefixes =
                    [format!("mcp__{name}__"), format!("mcp_{name}_"), format!("{name}__")];
                let found = prefixes.iter().find_map(|prefix| target_after(text, prefix, tools));
                // Names without a server are mostly tools of the client itself.
                let is_known = || tools.iter().any(|tool| is_match(text, &sanitized(tool)));
                let may_exist = || tools.is_empty() && !BUILTIN_TOOLS.contains(&text);
                let is_ours = || is_known() || may_exist();
                found.or_else(|| if is_ours() { target_after(text, "", tools) } else { None })
            }
        }
    }
}

/// Matches a rule with the names of tools that begin with `prefix`.
fn target_after(text: &str, prefix: &str, tools: &[&str]) -> Option<RuleTarget> {
    // A name that no rule mentions: a rule that matches it matches all tools.
    if is_match(text, &format!("{prefix}\u{1}")) {
        return Some(RuleTarget::Server);
    }
    let matches = |tool: &&&str| is_match(text, &format!("{prefix}{}", sanitized(tool)));
    let known = tools.iter().filter(matches);
    let Some(rest) = text.strip_prefix(prefix).filter(|rest| !rest.is_empty()) else {
        // A glob in the name of the server.
        return known.peekable().peek().map(|_| RuleTarget::Server);
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.*?".contains(c);
    if !rest.chars().all(is_plain) {
        return Some(RuleTarget::Server);
    }
    let mut names = vec![rest.to_owned()];
    // Tools whose names the client spells in another way.
    names.extend(known.filter(|tool| !is_match(rest, tool)).map(|tool| literal(tool)));
    Some(RuleTarget::Tools(names))
}

/// Replaces characters as clients do in names of tools.
fn sanitized(name: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.chars().map(|c| if is_allowed(c) { c } else { '_' }).collect()
}

/// Escapes the characters that are special in a glob.
fn literal(name: &str) -> String {
    let special = |c: char| "*?[]{}\\!".contains(c);
    name.chars().map(|c| if special(c) { format!("[{c}]") } else { c.to_string() }).collect()
}

/// Matches `text` with a pattern, in which `*` stands for any text and `?` for one character.
fn is_match(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    for c in pattern {
        let mut next = vec![false; text.len() + 1];
        for (at, is_reached) in reached.iter().enumerate().filter(|(_, is_reached)| **is_reached) {
            match c {
                '*' if *is_reached => next[at..].fill(true),
                c if text.get(at).is_some_and(|own| c == '?' || c == *own) => next[at + 1] = true,
                _ => {}
            }
        }
        reached = next;
    }
    reached.last().copied().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn targets(client: &str, file: &Value, server: &str) -> Vec<(RuleAction, String)> {
        let tools = ["merge_pull_request", "list_issues", "files.delete"];
        let sources = rule_sources(client);
        let rules = sources.iter().filter(|own| own.file.len() < 16).flat_map(|own| own.read(file));
        let found = rules.filter_map(|rule| {
            Some((
                rule.action,
                match rule.target(server, &tools)? {
                    RuleTarget::Server => "all".to_owned(),
                    RuleTarget::Tools(names) => names.join(" "),
                },
            ))
        });
        found.collect()
    }

    #[test]
    fn rules_of_each_client_name_the_tools_they_deny() {
        use RuleAction::{Ask, Deny, Partial};
        let claude = |key: &str, rule: &str| json!({ "permissions": { key: [rule] } });
        for (client, file, wanted) in [
            (
                "claude-code",
                claude("deny", "mcp__git_hub__merge_pull_request"),
                Some((Deny, "merge_pull_request")),
            ),
            (
                "claude-code",
                claude("deny", "mcp__git_hub__merge_pull_request(x)"),
                Some((Deny, "merge_pull_request")),
            ),
            (
                "claude-code",
                claude("deny", "mcp__git_hub__files_delete"),
                Some((Deny, "files_delete files.delete")),
            ),
            ("claude-code", claude("deny", "mcp__git_hub__merge_*"), Some((Deny, "merge_*"))),
            ("claude-code", claude("deny", "mcp__git_hub__not_yet"), Some((Deny, "not_yet"))),
            ("claude-code", claude("deny", "mcp__git_hub"), Some((Deny, "all"))),
            ("claude-code", claude("deny", "mcp__git_hub__*"), Some((Deny, "all"))),
            ("claude-code", claude("deny", "mcp__*"), Some((Deny, "all"))),
            ("claude-code", claude("deny", "mcp__git*__list_issues"), Some((Deny, "all"))),
            ("claude-code", claude("deny", "mcp__git__list_issues"), None),
            ("claude-code", claude("deny", "Bash(rm:*)"), None),
            ("claude-code", claude("ask", "mcp__git_hub__list_issues"), Some((Ask, "list_issues"))),
            (
                "claude-code",
                claude("allow", "mcp__git_hub__list_issues"),
                Some((RuleAction::Allow, "list_issues")),
            ),
            (
                "claude-code",
                json!({ "deniedMcpServers": [{ "serverName": "git hub" }] }),
                Some((Deny, "all")),
            ),
            (
                "opencode",
                json!({ "tools": { "git_hub_list_issues": false } }),
                Some((Deny, "list_issues")),
            ),
            ("opencode", json!({ "tools": { "git_hub*": false } }), Some((Deny, "all"))),
            ("opencode", json!({ "tools": { "git_hub_*": true, "write": false } }), None),
            (
                "opencode",
                json!({ "permission": { "git_hub_merge*": "ask" } }),
                Some((Ask, "merge*")),
            ),
            (
                "opencode",
                json!({ "permission": { "git_hub_x": { "*": "deny" } } }),
                Some((Deny, "x")),
            ),
            (
                "opencode",
                json!({ "agent": { "plan": { "tools": { "git_hub_*": true } } } }),
                Some((Partial, "all")),
            ),
            (
                "gemini",
                json!({ "tools": { "exclude": ["mcp_git_hub_list_issues"] } }),
                Some((Deny, "list_issues")),
            ),
            ("gemini", json!({ "excludeTools": ["list_issues"] }), Some((Deny, "list_issues"))),
            ("gemini", json!({ "excludeTools": ["run_shell_command"] }), None),
            (
                "qwen",
                json!({ "permissions": { "deny": ["mcp__git_hub__list_issues"] } }),
                Some((Deny, "list_issues")),
            ),
            (
                "cursor",
                json!({ "permissions": { "deny": ["Mcp(git hub:merge_*)"] } }),
                Some((Deny, "merge_*")),
            ),
            ("cursor", json!({ "permissions": { "deny": ["Mcp(*:*)"] } }), Some((Deny, "all"))),
            (
                "amp",
                json!({ "amp.tools.disable": ["mcp__git_hub__list_issues"] }),
                Some((Deny, "list_issues")),
            ),
            (
                "crush",
                json!({ "options": { "disabled_tools": ["mcp_git_hub_list_issues"] } }),
                Some((Deny, "list_issues")),
            ),
            (
                "goose",
                json!({ "user": { "never_allow": ["git_hub__list_issues"] } }),
                Some((Deny, "list_issues")),
            ),
        ] {
            let found = targets(client, &file, "git hub");
            let wanted = wanted.map(|(action, names)| (action, names.to_owned()));
            assert_eq!(found.first(), wanted.as_ref(), "{client}: {file}");
        }
    }

    #[test]
    fn bare_names_of_unknown_tools_are_denied_unless_the_client_has_them() {
        let file = json!({ "excludeTools": ["list_issues", "run_shell_command"] });
        let rules = rule_sources("gemini").into_iter().flat_map(|own| own.read(&file));
        let found: Vec<_> = rules.map(|rule| rule.target("github", &[])).collect();
        let names = RuleTarget::Tools(vec!["list_issues".to_owned()]);
        assert_eq!(found, [Some(names), None]);
    }

    #[test]
    fn globs_match_as_in_clients() {
        for (pattern, text, expected) in [
            ("a*c", "abbc", true),
            ("*", "", true),
            ("a?c", "ac", false),
            ("a", "ab", false),
            ("**b", "aab", true),
            ("", "", true),
        ] {
            assert_eq!(is_match(pattern, text), expected, "{pattern} {text}");
        }
    }
}
