//! Free names: a server's own name for something is shown as it is only if it could mean nothing else.
//!
//! A name that is shaped like one of ours, or like one that we make for a server, belongs to whoever
//! that is, also where there is no such server, or none that the agent may use. So nothing that is
//! shown tells of servers that are not.

use crate::name::unique::{SCHEME, ServerRef, uri_prefix};
use crate::name::{HASH_DIGITS, SEPARATOR, seen, short_hash};

/// The tools of our own, in whatever mode.
pub const OWN_TOOLS: [&str; 9] = [
    "open_toolbox",
    "use_tool",
    "search_tools",
    "execute_task",
    "toolman_activate",
    "get-modular-tools",
    "call-modular-tool",
    "get-category-tools",
    "call-category-tool",
];

/// The most characters of a tool's name (MCP 2025-11-25, server/tools) and of a prompt's.
const MAX_NAME: usize = 128;
/// The most bytes of an address.
const MAX_ADDRESS: usize = 2048;
/// How many bytes of an address are kept in the one that stands for it.
const KEPT: usize = 200;
/// How many characters of a name are kept in the one that stands for it.
const KEPT_OF_NAME: usize = 64;

/// Returns `true` if a tool can be shown under its server's own name for it, where registered names
/// have at most `limit` bytes.
///
/// A name with a `:` would be taken for `server:tool`, and one that is not ASCII may look like any
/// other.
pub fn is_free_tool(name: &str, limit: usize) -> bool {
    name.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && !name.contains(':')
        && is_free_prompt(name, limit)
        && !is_like_ours(name)
}

/// Returns `true` if a prompt can be shown under its server's own name for it.
pub fn is_free_prompt(name: &str, limit: usize) -> bool {
    is_fit(name) && !is_like_registered(name, limit)
}

/// Returns `true` if a name can stand in a list: all of it is seen, and it is not too long.
pub fn is_fit(name: &str) -> bool {
    name.chars().nth(MAX_NAME).is_none() && !name.chars().any(seen::is_unseen)
}

/// Returns the name under which a tool is shown whose own is not fit ([`is_fit`]): its beginning, and
/// a hash of it.
pub fn fitted(own: &str) -> String {
    let seen = own.chars().map(|c| if seen::is_unseen(c) { '_' } else { c });
    let kept: String = seen.take(KEPT_OF_NAME).collect();
    format!("{kept}_{}", short_hash(&[own]))
}

/// Returns `true` if a resource or a template can be shown under its server's own address for it.
pub fn is_free_address(uri: &str) -> bool {
    is_fit_address(uri) && !has_our_scheme(uri)
}

/// Returns `true` if a name has the shape of a registered one: two separators, or as many bytes as
/// such a name may have and a hash at its end.
pub fn is_like_registered(name: &str, limit: usize) -> bool {
    let separators = name.match_indices(SEPARATOR).count();
    separators > 1 || name.len() == limit && has_hash(name)
}

/// Returns `true` if an address has the scheme of those that we make, in whatever case.
pub fn has_our_scheme(uri: &str) -> bool {
    let scheme = uri.trim_start().split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME))
}

/// Returns the address of a server's resource that nobody else can have: the server's own with the
/// server before it, or where that is too long, or has characters in it that are not seen, its
/// beginning and a hash of it.
pub fn full_address(at: &ServerRef, own: &str) -> String {
    let prefix = uri_prefix(at);
    if is_fit_address(own) {
        return prefix + own;
    }
    let seen = own.chars().map(|c| if seen::is_unseen(c) { '-' } else { c });
    let mut kept: String = seen.take(KEPT).collect();
    while kept.len() > KEPT {
        kept.pop();
    }
    format!("{prefix}{kept}~{}", short_hash(&[own]))
}

/// Returns `true` if a name ends in what a registered name ends in that was changed.
pub(crate) fn has_hash(name: &str) -> bool {
    let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    name.rsplit_once('_').is_some_and(|(readable, hash)| {
        !readable.is_empty() && hash.len() == HASH_DIGITS && hash.chars().all(is_hex)
    })
}

fn is_fit_address(uri: &str) -> bool {
    uri.len() <= MAX_ADDRESS && !uri.chars().any(seen::is_unseen)
}

/// Returns `true` if a name is that of a tool of ours but for case and marks.
fn is_like_ours(name: &str) -> bool {
    let letters = |text: &'static str| text.bytes().filter(u8::is_ascii_alphanumeric);
    OWN_TOOLS.iter().any(|ours| {
        let mut name = name.bytes().filter(u8::is_ascii_alphanumeric);
        letters(ours).all(|c| name.next().is_some_and(|other| other.eq_ignore_ascii_case(&c)))
            && name.next().is_none()
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::name::{ServerName, ToolboxName};

    #[test]
    fn honest_names_are_free() {
        for name in [
            "create_issue",
            "browser__click",
            "git.status",
            "get-repo/file",
            "report_20240101",
            "__init",
            "use_tools",
            "Say Hello",
            "a",
            "search",
        ] {
            assert!(is_free_tool(name, 48), "{name}");
        }
        for name in ["résumé", "代码审查", "code:review", "use_tool"] {
            assert!(is_free_prompt(name, 48), "{name}");
        }
        for uri in ["file:///a b", "mcp-workbenches://x", "git+ssh://mcp-workbench://", "x"] {
            assert!(is_free_address(uri), "{uri}");
        }
    }

    #[test]
    fn a_name_that_may_mean_another_is_not_free() {
        let truncated = format!("{}_0123abcd", "x".repeat(39));
        let long = "x".repeat(129);
        for name in [
            "bank__bank__transfer",
            "mcp__bank__transfer",
            "a____b",
            "bank:transfer",
            ":",
            &truncated,
            "use_tool",
            "Use-Tool",
            "use.tool ",
            "OPENTOOLBOX",
            "getModularTools",
            "b\u{430}nk",
            "a\nb",
            "a\u{200b}",
            "a\u{1b}[2J",
            &long,
        ] {
            assert!(!is_free_tool(name, 48), "{name}");
        }
        for name in ["bank__bank__ask", &truncated, "a\u{202e}", "a\rb", &long] {
            assert!(!is_free_prompt(name, 48), "{name}");
        }
        let far = format!("x://{}", "x".repeat(MAX_ADDRESS));
        for uri in
            ["mcp-workbench://bank/bank/x", "MCP-Workbench:x", " mcp-workbench:", "x://a\nb", &far]
        {
            assert!(!is_free_address(uri), "{uri}");
        }
    }

    #[test]
    fn a_full_address_is_short_and_has_nothing_unseen() {
        let at = ServerRef { toolbox: ToolboxName::new("dev"), server: ServerName::new("a/b") };
        assert_eq!(full_address(&at, "x://y"), "mcp-workbench://dev/a%2Fb/x://y");
        let odd = full_address(&at, "x://y\n  z");
        assert!(odd.starts_with("mcp-workbench://dev/a%2Fb/x://y-  z~"), "{odd}");
        assert_ne!(odd, full_address(&at, "x://y\r  z"));
        let far = full_address(&at, &"é".repeat(5000));
        assert!(far.len() < 250, "{far}");
    }
}
