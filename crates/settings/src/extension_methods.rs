//! Methods of protocol extensions, as distinct from methods that MCP defines.

/// The first segments of methods that MCP defines.
const CORE_FAMILIES: [&str; 15] = [
    "completion",
    "elicitation",
    "initialize",
    "logging",
    "notifications",
    "ping",
    "prompts",
    "resources",
    "roots",
    "sampling",
    "server",
    "subscriptions",
    "tasks",
    "tools",
    "",
];

/// Methods of published extensions whose first segment is MCP's: the skills extension (SEP-2640)
/// lists the files of a skill with this one.
const EXTENSION_METHODS_IN_CORE_FAMILIES: [&str; 1] = ["resources/directory/read"];

/// Returns `true` if a method belongs to MCP itself. The workbench handles such methods or rejects
/// them; it never forwards them as methods of an extension.
///
/// Ignores case and white space, in case a server does.
pub fn is_core_method(method: &str) -> bool {
    if EXTENSION_METHODS_IN_CORE_FAMILIES.contains(&method) {
        return false;
    }
    let family = method.split('/').next().unwrap_or_default().trim().to_ascii_lowercase();
    CORE_FAMILIES.contains(&family.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_of_mcp_are_core_in_any_spelling() {
        for method in [
            "tools/call",
            "Tools/Call",
            " tools/call",
            "resources/directory",
            "Resources/directory/read",
            "initialize",
            "ping",
            "tasks/invent",
            "server/discover",
            "notifications/cancelled",
            "/x",
            "",
        ] {
            assert!(is_core_method(method), "{method}");
        }
        for method in
            ["skills/list", "resources/directory/read", "acme/tools/call", "toolset/list", "x"]
        {
            assert!(!is_core_method(method), "{method}");
        }
    }
}
