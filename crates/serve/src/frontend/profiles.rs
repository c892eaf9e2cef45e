//! The profiles of clients' programs, by the names and versions that they give themselves
//! (`clientInfo`). Each fact was measured with the version that its comment names.

use std::time::Duration;

use crate::exposure::{Profile, Relisting, is_meant};
use crate::state::Program;

/// Bytes of `mcp__workbench__` and the like, which a client puts before a name.
const CLAUDE_PREFIX: usize = 16;
const CODEX_PREFIX: usize = 16;
const GEMINI_PREFIX: usize = 14;

/// A client's program, from this version on.
struct Known {
    name: &'static str,
    since: [u32; 3],
    profile: Profile,
}

/// Clients that were tried out, of each the newest version first; of any other nothing is assumed.
const KNOWN: [Known; 5] = [
    Known {
        // 2.1.329: of descriptions and of instructions with 20,000 characters it showed the first
        // 4,096, and all of a parameter's description. Longer answers become a file with a preview,
        // and names of more than 128 are lost. New tools are announced by name, and are called only
        // after a search for them.
        name: "claude-code",
        since: [2, 1, 329],
        profile: Profile {
            description_limit: Some(4096),
            instructions_limit: Some(4096),
            ..CLAUDE_CODE
        },
    },
    // 2.1.84 cut descriptions and instructions at 2 KiB.
    Known { name: "claude-code", since: [0, 0, 0], profile: CLAUDE_CODE },
    Known {
        // 0.169 never lists again. Of a model that it knows, it shows the first 250 characters of
        // the instructions, and no tools before a search for them. Of an answer it keeps 6,000
        // characters at the beginning and at the end, and it gives a hash to names of more than 128.
        name: "codex-mcp-client",
        since: [0, 0, 0],
        profile: Profile {
            description_limit: None,
            instructions_limit: Some(250),
            answer_limit: Some(12_000),
            name_limit: Some(128 - CODEX_PREFIX),
            relisting: Relisting::Never,
            settling: SETTLING,
            has_tool_search: true,
        },
    },
    Known {
        // 0.61 has listed long before its model is given the tools: after 50 ms they were missing
        // in 11 of 16 runs, after 200 in none of 12. It cuts the middle out of answers, and out of
        // names of more than 63.
        name: "gemini-cli",
        since: [0, 0, 0],
        profile: Profile {
            description_limit: None,
            instructions_limit: Some(30_000),
            answer_limit: Some(40_000),
            name_limit: Some(63 - GEMINI_PREFIX),
            relisting: Relisting::InTime,
            settling: Duration::from_millis(400),
            has_tool_search: false,
        },
    },
    Known {
        // 1.18 passes on names of any length; the model's API may refuse them. Answers are cut by
        // whole lines.
        name: "opencode",
        since: [0, 0, 0],
        profile: Profile {
            description_limit: None,
            instructions_limit: Some(30_000),
            answer_limit: Some(50_000),
            name_limit: None,
            relisting: Relisting::InTime,
            settling: SETTLING,
            has_tool_search: false,
        },
    },
];

/// How long it takes most clients to give their model a list that they have read.
const SETTLING: Duration = Duration::from_millis(50);

/// Claude Code, as far as its versions are alike.
const CLAUDE_CODE: Profile = Profile {
    description_limit: Some(2048),
    instructions_limit: Some(2048),
    answer_limit: Some(50_000),
    name_limit: Some(128 - CLAUDE_PREFIX),
    relisting: Relisting::InTime,
    settling: SETTLING,
    has_tool_search: true,
};

/// Returns what is known of a client.
pub(crate) fn of(client: &Program) -> Profile {
    let version = numbers(&client.version);
    let is_known = |known: &&Known| is_meant(known.name, &client.name) && known.since <= version;
    let known = KNOWN.iter().find(is_known);
    known.map(|known| known.profile).unwrap_or_default()
}

/// The numbers of a version; those that are missing, or cannot be read, are 0.
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

    fn of(name: &str, version: &str) -> Profile {
        super::of(&Program { name: name.to_owned(), version: version.to_owned() })
    }

    #[test]
    fn of_a_stranger_nothing_is_assumed() {
        assert_eq!(of("somebody", "1.0"), Profile::default());
        assert_eq!(of("claude-code", "1").relisting, Relisting::InTime);
        assert_eq!(of("codex-mcp-client", "0.169.0").relisting, Relisting::Never);
        assert_eq!(of("gemini-cli-mcp-client", "").name_limit, Some(49));
    }

    #[test]
    fn a_newer_version_is_known_by_what_was_measured_with_it() {
        let limit = |version| of("claude-code", version).description_limit;
        assert_eq!(limit("2.1.84"), Some(2048));
        assert_eq!(limit("not a version"), Some(2048));
        assert_eq!(limit("2.1.329"), Some(4096));
        assert_eq!(limit("2.1.329-beta.1"), Some(4096));
        assert_eq!(limit("3.0"), Some(4096));
        assert_eq!(limit("99999999999999999999.1"), Some(2048));
    }
}
