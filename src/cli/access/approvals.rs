//! `approvals`: lists the calls that wait for an approval, and approves or denies them.

mod key;
mod watch;

use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use serde::Serialize;

use crate::cli::args::GlobalArgs;
use crate::cli::output::{CommandError, age, format_age, format_count, print, system_time};
use crate::cli::runtime::block_on;
use crate::cli::servers::approval_key::PassphraseKey;
use crate::cli::servers::running_workbenches::running_workbenches;
use crate::cli::servers::waiting_calls::{self, CallQueue};
use crate::cli::terminal::read_passphrase;
use mcp_workbench_core::gateway::PendingCall;

const EXAMPLES: &str = "\
Examples:
  mcp-workbench approvals key             Create the key, once
  mcp-workbench approvals                 List waiting calls
  mcp-workbench approvals --watch         Wait for calls and answer them
  mcp-workbench approvals approve 3f2a    Approve one call
  mcp-workbench approvals deny 3f2a       Deny one call";

/// Length of an ID in lists, in characters.
const SHORT_ID: usize = 8;

/// Approve or deny the calls that wait for you
///
/// A call that needs confirmation waits if its client can't ask. This command shows such calls of
/// all running workbenches of this user. To approve one, you enter the passphrase of the approval
/// key on the terminal, so that no agent can approve its own calls.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<ApprovalsCommand>,
    /// Wait for calls, and ask about each
    #[arg(long, conflicts_with = "json")]
    watch: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum ApprovalsCommand {
    /// Show a call and approve it with your passphrase
    Approve {
        /// ID of the call, or its beginning
        id: String,
    },
    /// Deny a call
    Deny {
        /// ID of the call, or its beginning
        id: String,
    },
    /// Create the approval key from a passphrase
    ///
    /// Asks for a passphrase and writes the public part of its key to the configuration. The
    /// passphrase is stored nowhere. Restart the workbenches afterwards: they read the key only
    /// when they start.
    Key(key::Args),
}

#[derive(Serialize)]
struct CallRow<'a> {
    pid: u32,
    #[serde(flatten)]
    call: &'a PendingCall,
}

pub(crate) fn run(global: &GlobalArgs, args: &Args) -> Result<ExitCode, CommandError> {
    match &args.command {
        Some(ApprovalsCommand::Key(args)) => return key::run(global, args),
        Some(ApprovalsCommand::Approve { id }) => {
            let (queue, call) = find(global, id)?;
            print::text_unredacted(&describe(&call))?;
            approve(&queue, &call)?;
            print::note(&"approved");
        }
        Some(ApprovalsCommand::Deny { id }) => {
            let (queue, call) = find(global, id)?;
            answer(&queue, &call, None)?;
            print::note(&"denied");
        }
        None if args.watch => watch::run(global)?,
        None => list(global, args.json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn queues(global: &GlobalArgs) -> Result<Vec<CallQueue>, CommandError> {
    let running = running_workbenches(global)?;
    block_on(waiting_calls::collect(&running))
}

fn list(global: &GlobalArgs, is_json: bool) -> Result<(), CommandError> {
    let queues = queues(global)?;
    let calls =
        || queues.iter().flat_map(|queue| queue.calls.iter().map(move |call| (queue, call)));
    if is_json {
        let rows: Vec<_> = calls().map(|(queue, call)| CallRow { pid: queue.pid, call }).collect();
        return print::json_unredacted(&rows);
    }
    for (_, call) in calls() {
        print::text_unredacted(&format!("{}\n", describe(call)))?;
    }
    if calls().next().is_some() {
        print::note(&"hint: run `mcp-workbench approvals approve ID` or `deny ID`");
    } else {
        print::note(&"no call waits for an approval (`--unlisted` workbenches are hidden)");
    }
    note_missing_keys(&queues);
    Ok(())
}

/// Prints a hint if some workbenches accept no approvals from this machine.
fn note_missing_keys(queues: &[CallQueue]) {
    let without = queues.iter().filter(|queue| queue.key.is_none()).count();
    if without > 0 {
        print::note(&format!(
            "hint: {} started without an approval key: run `mcp-workbench approvals key` once, then \
             restart it",
            format_count(without, "running workbench")
        ));
    }
}

/// Returns the call whose ID begins with `id`.
fn find(global: &GlobalArgs, id: &str) -> Result<(CallQueue, PendingCall), CommandError> {
    let id = id.trim().to_ascii_lowercase();
    let mut found = Vec::new();
    for mut queue in queues(global)? {
        let calls = std::mem::take(&mut queue.calls);
        let mut meant = calls.into_iter().filter(|call| !id.is_empty() && call.id.starts_with(&id));
        if let Some(call) = meant.next() {
            if meant.next().is_some() {
                return Err(ambiguous(&id));
            }
            found.push((queue, call));
        }
    }
    if found.len() > 1 {
        return Err(ambiguous(&id));
    }
    found.pop().ok_or_else(|| {
        CommandError::failed(format!("no call with the ID `{id}` waits for an approval"))
            .with_hint("run `mcp-workbench approvals` to list the waiting calls")
    })
}

fn ambiguous(id: &str) -> CommandError {
    CommandError::failed(format!("the IDs of several calls begin with `{id}`"))
        .with_hint("enter more characters of the ID")
}

/// Asks for the passphrase and approves the call, which the user has been shown.
fn approve(queue: &CallQueue, call: &PendingCall) -> Result<(), CommandError> {
    let Some(known) = &queue.key else {
        return Err(CommandError::failed(format!(
            "the workbench with PID {} started without an approval key",
            queue.pid
        ))
        .with_hint("run `mcp-workbench approvals key` once, then restart the workbench"));
    };
    let passphrase = read_passphrase("Passphrase to approve this call (empty to cancel): ")?;
    if passphrase.is_empty() {
        return Err(CommandError::failed("not approved: no passphrase entered"));
    }
    let key = PassphraseKey::unlock(&passphrase, known)?;
    answer(queue, call, Some(key.approve(call)))
}

/// Approves the call if there is a signature, and denies it otherwise.
fn answer(
    queue: &CallQueue,
    call: &PendingCall,
    signature: Option<String>,
) -> Result<(), CommandError> {
    let answered = block_on(waiting_calls::answer(&queue.socket, call, signature))?;
    let answered = answered.map_err(|error| {
        CommandError::failed(format!("no response from the workbench with PID {}", queue.pid))
            .because(&error)
    })?;
    answered.map_err(CommandError::failed)
}

/// Returns everything about a call, on several lines. Only the workbench shortens nothing and
/// escapes everything; a program that pretends to be one can't get a signature for another call.
fn describe(call: &PendingCall) -> String {
    let PendingCall { id, agent, client, toolbox, server, tool, reason, arguments, since, until } =
        call;
    let agent = match (agent, client.as_str()) {
        (Some(agent), "") => format!("`{agent}`"),
        (Some(agent), client) => format!("`{agent}` ({client})"),
        (None, "") => "without a name".to_owned(),
        (None, client) => format!("without a name ({client})"),
    };
    let short: String = id.chars().take(SHORT_ID).collect();
    let time = |millis: u64| system_time(Duration::from_millis(millis));
    let left = time(*until).duration_since(std::time::SystemTime::now()).unwrap_or_default();
    let (waits, left) = (format_age(age(time(*since))), format_age(left));
    format!(
        "{short}  waits for {waits}, denied in {left}\n  Agent:     {agent}\n  Tool:      \
         `{tool}` of server `{server}` in toolbox `{toolbox}`\n  Reason:    {reason}\n  Arguments: \
         {arguments}"
    )
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn describes_every_field() {
        let call = PendingCall {
            id: "0123456789abcdef".to_owned(),
            agent: Some("ann".to_owned()),
            client: "codex".to_owned(),
            toolbox: "desk".to_owned(),
            server: "notes".to_owned(),
            tool: "delete_note".to_owned(),
            reason: "it is dangerous".to_owned(),
            arguments: r#"{"title":"Lunch"}"#.to_owned(),
            ..PendingCall::default()
        };
        let text = describe(&call);
        let (_, rest) = text.split_once('\n').unwrap();
        assert!(text.starts_with("01234567  waits for "), "{text}");
        assert_eq!(
            rest,
            "  Agent:     `ann` (codex)\n  Tool:      `delete_note` of server `notes` in toolbox \
             `desk`\n  Reason:    it is dangerous\n  Arguments: {\"title\":\"Lunch\"}"
        );
    }
}
