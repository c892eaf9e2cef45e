//! `token`: generates an access token for an agent, with its entry for the configuration.

use std::io::Read;
use std::process::ExitCode;

use serde::Serialize;

use crate::cli::output::{CommandError, print};
use crate::cli::tokens::generate_token;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench token claude                       Create a token
  mcp-workbench token claude --from-stdin < file   Use an existing token
  mcp-workbench token --operator me                Create a dashboard token";

/// Limits a token read from stdin. In bytes.
const MOST: u64 = 4096;

/// Create an access token for an agent
///
/// Prints the token and its entry for `auth.tokens`. The token is shown once and stored nowhere: the
/// entry contains only its SHA-256 hash.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Agent that the token identifies
    agent: String,
    /// Create a dashboard token for `auth.operators` instead
    #[arg(long)]
    operator: bool,
    /// Read an existing token from stdin
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
        return Err(CommandError::usage("the agent name is empty or has control characters"));
    }
    let token = if args.from_stdin { read()? } else { generate_token()? };
    let sha256 = hex::encode(mcp_workbench_settings::token_digest(&token));
    let shown = (!args.from_stdin).then_some(token.as_str());
    let made = TokenReport { token: shown, entry: TokenEntry { agent, sha256 } };
    if args.json {
        print::json(&made)?;
        return Ok(ExitCode::SUCCESS);
    }
    let entry = serde_json::to_string(&made.entry).map_err(CommandError::internal)?;
    if let Some(token) = shown {
        let kind = if args.operator { "dashboard token" } else { "access token for the agent" };
        print::note(&format!("{kind} (shown only once):"));
        print::data(&token)?;
    }
    let place = if args.operator { "auth.operators" } else { "auth.tokens" };
    print::note(&format!("add this entry to `{place}` in the configuration:"));
    print::data(&entry)?;
    Ok(ExitCode::SUCCESS)
}

fn read() -> Result<String, CommandError> {
    let mut text = String::new();
    let mut input = std::io::stdin().lock().take(MOST);
    input.read_to_string(&mut text).map_err(CommandError::internal)?;
    let token = text.trim();
    if !mcp_workbench_config::is_valid_token(token) {
        let message = "invalid token: expected at least 16 letters, digits and `-._~+/=`";
        return Err(CommandError::usage(message)
            .with_hint("run `mcp-workbench token <agent>` to create one"));
    }
    Ok(token.to_owned())
}
