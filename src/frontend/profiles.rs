//! What is known of clients' programs, by the names that they give themselves (`clientInfo.name`).

use crate::exposure::{Profile, is_meant};

/// Bytes of `mcp__workbench__` and the like, which a client puts before a name.
const CLAUDE_PREFIX: usize = 16;
const CODEX_PREFIX: usize = 16;
const GEMINI_PREFIX: usize = 14;

/// Clients that were tried out; of any other nothing is assumed.
const KNOWN: [(&str, Profile); 4] = [
    (
        // 2.1.84 shows 2 KiB of a description, 2.1.329 shows 16; names of more than 128 are lost.
        "claude-code",
        Profile {
            description_limit: Some(2048),
            name_limit: Some(128 - CLAUDE_PREFIX),
            relists_in_time: true,
            has_tool_search: true,
        },
    ),
    (
        // 0.169 never lists again; it gives a hash to names of more than 128.
        "codex-mcp-client",
        Profile {
            description_limit: None,
            name_limit: Some(128 - CODEX_PREFIX),
            relists_in_time: false,
            has_tool_search: true,
        },
    ),
    (
        // 0.61 cuts the middle out of names of more than 63.
        "gemini-cli",
        Profile {
            description_limit: None,
            name_limit: Some(63 - GEMINI_PREFIX),
            relists_in_time: true,
            has_tool_search: false,
        },
    ),
    (
        // 1.18 passes on names of any length; the model's API may refuse them.
        "opencode",
        Profile {
            description_limit: None,
            name_limit: None,
            relists_in_time: true,
            has_tool_search: false,
        },
    ),
];

/// What is known of a client of this name.
pub(crate) fn of(client: &str) -> Profile {
    let known = KNOWN.iter().find(|(key, _)| is_meant(key, client));
    known.map(|(_, profile)| *profile).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_stranger_nothing_is_assumed() {
        assert_eq!(of("somebody"), Profile::default());
        assert!(of("claude-code").relists_in_time);
        assert!(!of("codex-mcp-client").relists_in_time);
        assert_eq!(of("gemini-cli-mcp-client").name_limit, Some(49));
    }
}
