//! Shows the status of a command to the user, and asks the user to confirm a call.

use std::io::IsTerminal;

use crate::cli::output::{Spinner, print};
use crate::cli::tool_commands::events::CommandEvent;

/// The user at the terminal, if there is one.
#[derive(Default)]
pub(super) struct UserInterface(Option<Spinner>);

/// Returns `true` if the user can be asked to confirm a call.
pub(crate) fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

impl UserInterface {
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
        self.0.get_or_insert_with(|| Spinner::new("")).say(text);
    }

    /// Asks at the terminal whether to make a call.
    pub(super) async fn confirm(&mut self, message: &str) -> bool {
        if !can_ask() {
            return false;
        }
        self.status("");
        print::note(&format!("{message}\nMake this call? [y/N]"));
        let answer = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            std::io::stdin().read_line(&mut line).map(|_| line)
        });
        let line = answer.await.ok().and_then(Result::ok).unwrap_or_default();
        matches!(line.trim().to_lowercase().as_str(), "y" | "yes")
    }
}
