//! Profiles of known clients, by the name and version in `clientInfo`. Each value was measured with
//! the version in its comment, unless the comment says that it is documented.

use std::time::Duration;

use crate::exposure::{ClientProfile, RelistBehavior, matches_client};
use mcp_workbench_core::state::ClientInfo;

/// Length in bytes of the prefix, such as `mcp__workbench__`, that a client puts before tool names.
const CLAUDE_PREFIX: usize = 16;
const CODEX_PREFIX: usize = 16;
const GEMINI_PREFIX: usize = 14;
const QWEN_PREFIX: usize = 16;
const COPILOT_PREFIX: usize = 10;

struct KnownClient {
    name: &'static str,
    since: [u32; 3],
    profile: ClientProfile,
}

/// The newest version of a client comes first. Other clients get the default profile.
const KNOWN: [KnownClient; 11] = [
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
        // In 0.171, 13 of 14 models call tools from scripts. `gpt-5.5` has a tool search, for which
        // listing all tools costs the same. A model that Codex doesn't know sees all definitions;
        // Codex doesn't say which model it uses, so `setup` turns code mode off for such a model.
        name: "codex-mcp-client",
        since: [0, 171, 0],
        profile: ClientProfile { has_code_mode: true, ..CODEX },
    },
    // 0.169 has no code mode.
    KnownClient { name: "codex-mcp-client", since: [0, 0, 0], profile: CODEX },
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
            call_timeout: Some(TEN_MINUTES),
            has_tool_search: false,
            keeps_own_tools_loaded: true,
            has_code_mode: false,
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
            call_timeout: None,
            has_tool_search: false,
            keeps_own_tools_loaded: true,
            has_code_mode: false,
        },
    },
    KnownClient {
        // 0.24 ignores list changes. It hides tools behind its tool search, unless the entry of
        // the workbench has `alwaysLoadTools`, which `setup` writes. Longer results are saved to a
        // file. Names over 63 characters are cut.
        name: "qwen-cli-mcp-client",
        since: [0, 0, 0],
        profile: ClientProfile {
            description_limit: None,
            instructions_limit: Some(30_000),
            answer_limit: Some(25_000),
            name_limit: Some(63 - QWEN_PREFIX),
            relisting: RelistBehavior::Never,
            settling: SETTLING,
            call_timeout: Some(TEN_MINUTES),
            has_tool_search: true,
            keeps_own_tools_loaded: true,
            has_code_mode: false,
        },
    },
    KnownClient {
        // 1.0 follows list changes. From 30 tools on, its own included, many models find tools of
        // servers only with a search, so the workbench's list stays short. Instructions aren't shown.
        // Results over 20 KiB are saved to a file. Names over 64 characters are cut.
        name: "copilot-cli",
        since: [0, 0, 0],
        profile: ClientProfile {
            description_limit: None,
            instructions_limit: None,
            answer_limit: Some(20_000),
            name_limit: Some(64 - COPILOT_PREFIX),
            relisting: RelistBehavior::InTime,
            settling: SETTLING,
            call_timeout: ClientProfile::UNKNOWN.call_timeout,
            has_tool_search: true,
            keeps_own_tools_loaded: true,
            has_code_mode: false,
        },
    },
    // Documented: recent models find tools with `tool_search`, which has no exceptions for tools of
    // MCP servers.
    KnownClient { name: "Visual Studio Code", since: [0, 0, 0], profile: SEARCHES_ALL },
    KnownClient { name: "Visual Studio Code - Insiders", since: [0, 0, 0], profile: SEARCHES_ALL },
    // Documented: definitions are in files, one folder for each server, and only names are in the
    // context.
    KnownClient { name: "cursor-vscode", since: [0, 0, 0], profile: SEARCHES_ALL },
];

/// A client whose tool search hides all tools of servers.
const SEARCHES_ALL: ClientProfile = ClientProfile {
    has_tool_search: true,
    keeps_own_tools_loaded: false,
    ..ClientProfile::UNKNOWN
};

const SETTLING: Duration = Duration::from_millis(50);
/// Default `timeout` of Gemini CLI and Qwen Code for each server, documented.
const TEN_MINUTES: Duration = Duration::from_mins(10);

/// Ignores list changes. With models it knows, shows the first 250 characters of the instructions,
/// and tools only after a search. Results keep 6,000 characters at each end. Names over 128
/// characters get a hash suffix.
const CODEX: ClientProfile = ClientProfile {
    description_limit: None,
    instructions_limit: Some(250),
    answer_limit: Some(12_000),
    name_limit: Some(128 - CODEX_PREFIX),
    relisting: RelistBehavior::Never,
    settling: SETTLING,
    call_timeout: ClientProfile::UNKNOWN.call_timeout,
    has_tool_search: true,
    keeps_own_tools_loaded: true,
    has_code_mode: false,
};

const CLAUDE_CODE: ClientProfile = ClientProfile {
    description_limit: Some(2048),
    instructions_limit: Some(2048),
    answer_limit: Some(50_000),
    name_limit: Some(128 - CLAUDE_PREFIX),
    relisting: RelistBehavior::InTime,
    settling: SETTLING,
    call_timeout: None,
    has_tool_search: true,
    keeps_own_tools_loaded: true,
    has_code_mode: false,
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
        assert!(of("qwen-cli-mcp-client-workbench", "0.0.1").has_tool_search);
        assert!(!of("Visual Studio Code - Insiders", "1.110.0").keeps_own_tools_loaded);
        assert!(of("codex-mcp-client", "0.171.0").has_code_mode);
        assert!(!of("codex-mcp-client", "0.170.9").has_code_mode);
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
