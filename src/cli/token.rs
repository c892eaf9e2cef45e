//! `token`: generates an access token for an agent, with its entry for the configuration.

use std::io::Read;
use std::process::ExitCode;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;

use crate::cli::error::CommandError;
use crate::cli::print;
use crate::config;
use crate::settings;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench token claude                       Make a token for the agent `claude`
  mcp-workbench token claude --from-stdin < file   Make the entry of a token that you have
  mcp-workbench token --operator me                Make one for the page";

/// Lets secret scanners recognize tokens.
const PREFIX: &str = "mcpw_";
/// Limits a token read from stdin. In bytes.
const MOST: u64 = 4096;

/// Make a token for an agent, and the entry of it for `auth.tokens`
///
/// The token is shown once and kept nowhere. The configuration has its SHA-256, from which nobody
/// can find out the token.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The agent whose token it is, by its name in the policy
    agent: String,
    /// Make one for the page, and its entry for `auth.operators`
    #[arg(long)]
    operator: bool,
    /// Take the token from standard input instead of making one
    #[arg(long)]
    from_stdin: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct TokenReport<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    entry: TokenEntry<'a>,
}

#[derive(Serialize)]
struct TokenEntry<'a> {
    agent: &'a str,
    sha256: String,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, CommandError> {
    let agent = args.agent.trim();
    if agent.is_empty() || agent.chars().any(char::is_control) {
        return Err(CommandError::usage("expected the name of an agent"));
    }
    let token = if args.from_stdin { read()? } else { generate_token()? };
    let sha256 = hex(&settings::token_digest(&token));
    let shown = (!args.from_stdin).then_some(token.as_str());
    let made = TokenReport { token: shown, entry: TokenEntry { agent, sha256 } };
    if args.json {
        print::json(&made)?;
        return Ok(ExitCode::SUCCESS);
    }
    let entry = serde_json::to_string(&made.entry).map_err(CommandError::internal)?;
    if let Some(token) = shown {
        let whose = if args.operator { "whoever is to act" } else { "the agent" };
        print::note(&format!("the token, for {whose}; it is not shown again:"));
        print::data(&token)?;
    }
    let place = if args.operator { "auth.operators" } else { "auth.tokens" };
    print::note(&format!("the entry, for `{place}` in the configuration:"));
    print::data(&entry)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn generate_token() -> Result<String, CommandError> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(CommandError::internal)?;
    Ok(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random)))
}

fn read() -> Result<String, CommandError> {
    let mut text = String::new();
    let mut input = std::io::stdin().lock().take(MOST);
    input.read_to_string(&mut text).map_err(CommandError::internal)?;
    let token = text.trim();
    if !config::is_valid_token(token) {
        let message = "expected a token: at least 16 letters, digits and `-._~+/=`";
        return Err(
            CommandError::usage(message).with_hint("`mcp-workbench token <agent>` makes one")
        );
    }
    Ok(token.to_owned())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}
