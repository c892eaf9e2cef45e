//! Profiles of known clients, by the name and version in `clientInfo`. Each value was measured with
//! the version in its comment.

use std::time::Duration;

use crate::exposure::{ClientProfile, RelistBehavior, matches_client};
use mcp_workbench_core::state::ClientInfo;

/// Length in bytes of the prefix, such as `mcp__workbench__`, that a client puts before tool names.
const CLAUDE_PREFIX: usize = 16;
const CODEX_PREFIX: usize = 16;
const GEMINI_PREFIX: usize = 14;

struct KnownClient {
    name: &'static str,
    since: [u32; 3],
    profile: ClientProfile,
}

/// The newest version of a client comes first. Other clients get the default profile.
const KNOWN: [KnownClient; 5] = [
    KnownClient {
        // 2.1.329 shows the first 4,096 characters of a tool description or the instructions, and
        // parameter descriptions in full. Longer results are saved to a file with a preview. Tools
        // with names over 128 characters are dropped. New tools are announced by name, and called
        // only after a tool search.
        name: "claude-code",
        since: [2, 1, 329],
        profile: ClientProfile {
            description_limit: Some(4096),
            instructions_limit: Some(4096),
            ..CLAUDE_CODE
        },
    },
    // 2.1.84 truncates descriptions and instructions at 2 KiB.
    KnownClient { name: "claude-code", since: [0, 0, 0], profile: CLAUDE_CODE },
    KnownClient {
        // 0.169 ignores list changes. With models it knows, it shows the first 250 characters of
        // the instructions, and tools only after a search. Results keep 6,000 characters at each
        // end. Names over 128 characters get a hash suffix.
        name: "codex-mcp-client",
        since: [0, 0, 0],
        profile: ClientProfile {
            description_limit: None,
            instructions_limit: Some(250),
            answer_limit: Some(12_000),
            name_limit: Some(128 - CODEX_PREFIX),
            relisting: RelistBehavior::Never,
            settling: SETTLING,
            has_tool_search: true,
        },
    },
    KnownClient {
        // 0.61 lists tools long before its model sees them: they were missing in 11 of 16 runs
        // after 50 ms, and in none of 12 after 200 ms. It cuts the middle out of results, and out
        // of names over 63 characters.
        name: "gemini-cli",
        since: [0, 0, 0],
        profile: ClientProfile {
            description_limit: None,
            instructions_limit: Some(30_000),
            answer_limit: Some(40_000),
            name_limit: Some(63 - GEMINI_PREFIX),
            relisting: RelistBehavior::InTime,
            settling: Duration::from_millis(400),
            has_tool_search: false,
        },
    },
    KnownClient {
        // 1.18 passes on names of any length, which the model's API may reject. It truncates
        // results at line ends.
        name: "opencode",
        since: [0, 0, 0],
        profile: ClientProfile {
            description_limit: None,
            instructions_limit: Some(30_000),
            answer_limit: Some(50_000),
            name_limit: None,
            relisting: RelistBehavior::InTime,
            settling: SETTLING,
            has_tool_search: false,
        },
    },
];

const SETTLING: Duration = Duration::from_millis(50);

const CLAUDE_CODE: ClientProfile = ClientProfile {
    description_limit: Some(2048),
    instructions_limit: Some(2048),
    answer_limit: Some(50_000),
    name_limit: Some(128 - CLAUDE_PREFIX),
    relisting: RelistBehavior::InTime,
    settling: SETTLING,
    has_tool_search: true,
};

/// Returns the profile of `client`, or the default if it is unknown.
pub(crate) fn profile_for(client: &ClientInfo) -> ClientProfile {
    let version = numbers(&client.version);
    let is_known =
        |known: &&KnownClient| matches_client(known.name, &client.name) && known.since <= version;
    let known = KNOWN.iter().find(is_known);
    known.map(|known| known.profile).unwrap_or_default()
}

fn numbers(version: &str) -> [u32; 3] {
    let mut numbers = [0; 3];
    let parts = version.trim_start_matches('v').split(['.', '-', '+', ' ']);
    for (number, part) in numbers.iter_mut().zip(parts) {
        let Ok(read) = part.parse() else { break };
        *number = read;
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, version: &str) -> ClientProfile {
        profile_for(&ClientInfo { name: name.to_owned(), version: version.to_owned() })
    }

    #[test]
    fn unknown_clients_get_the_default_profile() {
        assert_eq!(of("somebody", "1.0"), ClientProfile::default());
        assert_eq!(of("claude-code", "1").relisting, RelistBehavior::InTime);
        assert_eq!(of("codex-mcp-client", "0.169.0").relisting, RelistBehavior::Never);
        assert_eq!(of("gemini-cli-mcp-client", "").name_limit, Some(49));
    }

    #[test]
    fn picks_the_profile_of_the_version() {
        let limit = |version| of("claude-code", version).description_limit;
        assert_eq!(limit("2.1.84"), Some(2048));
        assert_eq!(limit("not a version"), Some(2048));
        assert_eq!(limit("2.1.329"), Some(4096));
        assert_eq!(limit("2.1.329-beta.1"), Some(4096));
        assert_eq!(limit("3.0"), Some(4096));
        assert_eq!(limit("99999999999999999999.1"), Some(2048));
    }
}
