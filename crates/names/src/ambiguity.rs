//! Decides whether a server's own name for something can be shown unchanged.
//!
//! A name with the shape of a registered name is always qualified, even if no such server exists.
//! Otherwise the listing would reveal which hidden servers exist. Names that resemble a built-in
//! tool are qualified too.

use crate::primitive_names::{SCHEME, ServerRef, uri_prefix};
use crate::{HASH_DIGITS, SEPARATOR, short_hash, untrusted_text};

/// The gateway's own tools, of all modes.
pub const BUILTIN_TOOL_NAMES: [&str; 9] = [
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

/// The maximum length of tool and prompt names, in characters (MCP 2025-11-25, server/tools).
const MAX_NAME: usize = 128;
/// The maximum length of a URI, in bytes.
const MAX_ADDRESS: usize = 2048;
/// Bytes of the original URI in a shortened one.
const KEPT: usize = 200;
/// The beginning of the URIs of apps' pages (MCP Apps).
pub const UI_SCHEME: &str = "ui://";
/// Characters of the original name in a shortened one.
const KEPT_OF_NAME: usize = 64;

/// Returns `true` if a tool can be shown under its server's own name, given that registered names
/// have at most `limit` bytes.
///
/// A name with a `:` could be read as `server:tool`, and a name with non-ASCII characters may look
/// like another.
pub fn is_unambiguous_tool_name(name: &str, limit: usize) -> bool {
    name.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && !name.contains(':')
        && is_unambiguous_prompt_name(name, limit)
        && !is_like_ours(name)
}

/// Returns `true` if a tool name has only the characters that MCP allows (2025-11-25,
/// server/tools). For one other name in a list, model APIs reject the whole request.
pub fn is_portable_tool_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

/// Returns `true` if a prompt can be shown under its server's own name.
pub fn is_unambiguous_prompt_name(name: &str, limit: usize) -> bool {
    is_listable_name(name) && !has_registered_shape(name, limit)
}

/// Returns `true` if a name is short enough for a listing and differs visibly from others: it has no
/// invisible characters, and spaces only one at a time between others.
pub fn is_listable_name(name: &str) -> bool {
    name.chars().nth(MAX_NAME).is_none()
        && !name.chars().any(untrusted_text::is_invisible)
        && name.split(' ').all(|word| !word.is_empty() || name.is_empty())
}

/// Returns a replacement for a name that isn't listable ([`is_listable_name`]): its beginning and a
/// hash.
pub fn to_listable_name(own: &str) -> String {
    let is_unseen = |c: char| c == ' ' || untrusted_text::is_invisible(c);
    let seen = own.chars().map(|c| if is_unseen(c) { '_' } else { c });
    let kept: String = seen.take(KEPT_OF_NAME).collect();
    format!("{kept}_{}", short_hash(&[own]))
}

/// Returns `true` if a resource or resource template can be shown under its server's own URI.
pub fn is_unambiguous_uri(uri: &str) -> bool {
    is_fit_address(uri) && !has_our_scheme(uri)
}

/// Returns `true` if a resource's URI is absolute and valid. For one other URI in a list, strict
/// clients reject the whole list.
pub fn is_portable_uri(uri: &str) -> bool {
    url::Url::parse(uri).is_ok()
}

/// Returns `true` if a name has the shape of a registered one: two separators, or exactly `limit`
/// bytes and a hash at the end.
pub fn has_registered_shape(name: &str, limit: usize) -> bool {
    let separators = name.match_indices(SEPARATOR).count();
    separators > 1 || name.len() == limit && has_hash(name)
}

/// Returns `true` if a URI has the gateway's own scheme, in any case.
pub fn has_our_scheme(uri: &str) -> bool {
    let scheme = uri.trim_start().split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME))
}

/// Returns a URI that no other server's resource can have: a prefix for the server, and the
/// server's own URI. If that is too long or has invisible characters, its beginning and a hash are
/// used.
pub fn qualified_uri(at: &ServerRef, own: &str) -> String {
    let prefix = uri_prefix(at);
    if is_fit_address(own) {
        return prefix + own;
    }
    let seen = own.chars().map(|c| if untrusted_text::is_invisible(c) { '-' } else { c });
    let mut kept: String = seen.take(KEPT).collect();
    while kept.len() > KEPT {
        kept.pop();
    }
    format!("{prefix}{kept}~{}", short_hash(&[own]))
}

/// Returns `true` if the page of an app can be shown under its server's own URI.
pub fn is_unambiguous_ui_uri(uri: &str) -> bool {
    let authority = uri.strip_prefix(UI_SCHEME).and_then(|rest| rest.split('/').next());
    let is_ours = authority.is_some_and(|name| name.eq_ignore_ascii_case(SCHEME));
    !is_ours && is_fit_address(uri) && is_portable_uri(uri)
}

/// Like [`qualified_uri`] for the page of an app, whose URI has to begin with `ui://` (MCP Apps).
pub fn qualified_ui_uri(at: &ServerRef, own: &str) -> String {
    let qualified = qualified_uri(at, own.strip_prefix(UI_SCHEME).unwrap_or(own));
    let path = qualified.strip_prefix(SCHEME).and_then(|rest| rest.strip_prefix("://"));
    format!("{UI_SCHEME}{SCHEME}/{}", path.unwrap_or_default())
}

/// Returns `true` if a name ends like a registered name with a hash.
pub(crate) fn has_hash(name: &str) -> bool {
    let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    name.rsplit_once('_').is_some_and(|(readable, hash)| {
        !readable.is_empty() && hash.len() == HASH_DIGITS && hash.chars().all(is_hex)
    })
}

fn is_fit_address(uri: &str) -> bool {
    uri.len() <= MAX_ADDRESS && !uri.chars().any(untrusted_text::is_invisible)
}

/// Returns `true` if a name differs from a built-in tool's only in case and punctuation.
fn is_like_ours(name: &str) -> bool {
    let letters = |text: &'static str| text.bytes().filter(u8::is_ascii_alphanumeric);
    BUILTIN_TOOL_NAMES.iter().any(|ours| {
        let mut name = name.bytes().filter(u8::is_ascii_alphanumeric);
        letters(ours).all(|c| name.next().is_some_and(|other| other.eq_ignore_ascii_case(&c)))
            && name.next().is_none()
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::{ServerName, ToolboxName};

    #[test]
    fn ordinary_names_are_unambiguous() {
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
            assert!(is_unambiguous_tool_name(name, 48), "{name}");
        }
        for name in ["résumé", "代码审查", "code:review", "use_tool"] {
            assert!(is_unambiguous_prompt_name(name, 48), "{name}");
        }
        for uri in ["file:///a b", "mcp-workbenches://x", "git+ssh://mcp-workbench://", "x"] {
            assert!(is_unambiguous_uri(uri), "{uri}");
        }
    }

    #[test]
    fn lookalike_names_are_ambiguous() {
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
            assert!(!is_unambiguous_tool_name(name, 48), "{name}");
        }
        for name in ["bank__bank__ask", &truncated, "a\u{202e}", "a\rb", &long] {
            assert!(!is_unambiguous_prompt_name(name, 48), "{name}");
        }
        let far = format!("x://{}", "x".repeat(MAX_ADDRESS));
        for uri in
            ["mcp-workbench://bank/bank/x", "MCP-Workbench:x", " mcp-workbench:", "x://a\nb", &far]
        {
            assert!(!is_unambiguous_uri(uri), "{uri}");
        }
    }

    #[test]
    fn names_outside_the_specification_are_not_portable() {
        for name in ["create_issue", "git.status", "get-repo", "__init", "A1"] {
            assert!(is_portable_tool_name(name), "{name}");
        }
        for name in
            ["", "say hello", "get-repo/file", "a,b", "a@b", "a:b", "r\u{e9}sum\u{e9}", "a\n"]
        {
            assert!(!is_portable_tool_name(name), "{name}");
        }
        for uri in ["file:///a b", "urn:isbn:1", "git+ssh://host/x", "x:", "postgres://u@h/db/t"] {
            assert!(is_portable_uri(uri), "{uri}");
        }
        for uri in ["", "notes.txt", "a/b", "//host/x", "http://", "1x://y", "x://h:99999/"] {
            assert!(!is_portable_uri(uri), "{uri}");
        }
    }

    #[test]
    fn qualified_uris_are_short_and_visible() {
        let at = ServerRef { toolbox: ToolboxName::new("dev"), server: ServerName::new("a/b") };
        for own in ["notes.txt", "a b", "", "//host/x", "http://", "1x://y", "\\a", "x://h:99999/"]
        {
            assert!(is_portable_uri(&qualified_uri(&at, own)), "{own}");
        }
        assert_eq!(qualified_uri(&at, "x://y"), "mcp-workbench://dev/a%2Fb/x://y");
        let odd = qualified_uri(&at, "x://y\n  z");
        assert!(odd.starts_with("mcp-workbench://dev/a%2Fb/x://y-  z~"), "{odd}");
        assert_ne!(odd, qualified_uri(&at, "x://y\r  z"));
        assert_eq!(qualified_ui_uri(&at, "ui://y/z.html"), "ui://mcp-workbench/dev/a%2Fb/y/z.html");
        assert!(is_unambiguous_ui_uri("ui://y/z.html"));
        for claimed in ["ui://mcp-workbench/dev/a%2Fb/y", "ui://MCP-Workbench", "ui://a b\n"] {
            assert!(!is_unambiguous_ui_uri(claimed), "{claimed}");
        }
        let far = qualified_uri(&at, &"é".repeat(5000));
        assert!(far.len() < 250, "{far}");
    }
}
