//! Shows the status of a command to the user, and asks the user to confirm a call.

use std::io::IsTerminal;

use crate::cli::output::{CommandError, Spinner, print};
use crate::cli::servers::approval_key::PassphraseKey;
use crate::cli::terminal::read_passphrase;
use crate::cli::tool_commands::events::CommandEvent;
use mcp_workbench_settings::ApprovalKey;

/// The user at the terminal, if there is one.
#[derive(Default)]
pub(super) struct UserInterface {
    spinner: Option<Spinner>,
    /// The key whose passphrase confirms a call.
    key: Option<ApprovalKey>,
}

/// Returns `true` if a user at a terminal can confirm a call.
pub(crate) fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

impl UserInterface {
    /// `key` is the approval key of the configuration.
    pub(super) fn new(key: Option<ApprovalKey>) -> Self {
        Self { spinner: None, key }
    }

    pub(super) async fn handle(&mut self, event: CommandEvent) {
        match event {
            CommandEvent::Status(text) => self.status(&text),
            CommandEvent::Confirm(message, answer) => {
                // The call may have ended in the meantime.
                let _ = answer.send(self.confirm(&message).await);
            }
        }
    }

    pub(super) fn status(&mut self, text: &str) {
        self.spinner.get_or_insert_with(|| Spinner::new("")).say(text);
    }

    /// Asks at the terminal whether to make a call. If there is an approval key, only its passphrase
    /// confirms the call, because an agent with a shell can imitate a terminal.
    async fn confirm(&mut self, message: &str) -> bool {
        if !can_ask() {
            return false;
        }
        self.status("");
        if let Some(key) = self.key {
            print::note(&message);
            let asking = tokio::task::spawn_blocking(move || is_unlocked(&key));
            return asking.await.unwrap_or(false);
        }
        print::note(&format!("{message}\nMake this call? [y/N]"));
        let answer = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            std::io::stdin().read_line(&mut line).map(|_| line)
        });
        let line = answer.await.ok().and_then(Result::ok).unwrap_or_default();
        matches!(line.trim().to_lowercase().as_str(), "y" | "yes")
    }
}

/// Returns `true` if the user enters the passphrase of the key.
fn is_unlocked(key: &ApprovalKey) -> bool {
    let ask = || -> Result<(), CommandError> {
        let passphrase = read_passphrase("Passphrase to make this call (empty to cancel): ")?;
        if passphrase.is_empty() {
            return Err(CommandError::failed("no passphrase entered"));
        }
        PassphraseKey::unlock(&passphrase, key).map(drop)
    };
    match ask() {
        Ok(()) => true,
        Err(error) => {
            print::note(&error.message());
            false
        }
    }
}
