//! Desktop notifications about calls that wait for an approval.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use mcp_workbench_config::env::{EnvSource, ProcessEnv};
use mcp_workbench_core::backend::launch::capture::CaptureCommand;
use mcp_workbench_core::backend::launch::detached::detach;
use mcp_workbench_core::telemetry::{ApprovalContext, Event, EventKinds, EventListener};
use mcp_workbench_names::AgentName;
use mcp_workbench_names::untrusted_text::display_name;
use mcp_workbench_os::Platform;

/// Shortest time between two notifications: an agent chooses how often it calls.
const PAUSE: Duration = Duration::from_secs(10);
/// Maximum length of a name, in characters.
const MAX_NAME: usize = 60;
const TITLE: &str = "MCP Workbench: a call waits for your approval";
/// Shows its arguments as title and text, so that neither is part of the script.
const SCRIPT: &str =
    "on run argv\ndisplay notification (item 2 of argv) with title (item 1 of argv)\nend run";

/// Starts the system's program for notifications. A missing program isn't an error.
pub(super) struct DesktopNotifier {
    environment: Vec<(OsString, OsString)>,
    last: Mutex<Option<Instant>>,
}

impl DesktopNotifier {
    /// Returns `None` if there is no desktop.
    pub(super) fn new() -> Option<Self> {
        let has_desktop = match Platform::THIS {
            Platform::Linux => has("DBUS_SESSION_BUS_ADDRESS"),
            Platform::MacOs => true,
            Platform::Windows => false,
        };
        has_desktop.then(|| Self { environment: ProcessEnv.vars(), last: Mutex::default() })
    }

    /// Returns `true` if enough time has passed since the last notification.
    fn is_due(&self) -> bool {
        let mut last = self.last.lock();
        let is_due = last.is_none_or(|last| last.elapsed() >= PAUSE);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

impl EventListener for DesktopNotifier {
    fn interest(&self) -> EventKinds {
        EventKinds::APPROVALS
    }

    fn on_event(&self, event: Event<'_>) {
        let Event::ApprovalRequested(call) = event else { return };
        if !self.is_due() {
            return;
        }
        let (words, environment) = (words(call, Platform::THIS), self.environment.clone());
        // Starting a program can block.
        let notifying = move || {
            let folder = Path::new("/");
            let notify = CaptureCommand { words: &words, folder, environment: &environment };
            if let Err(error) = detach(&notify) {
                tracing::debug!(%error, "no desktop notification");
            }
        };
        let _ = std::thread::Builder::new().name("notify".to_owned()).spawn(notifying);
    }
}

fn has(name: &str) -> bool {
    ProcessEnv.get(name).is_some_and(|value| !value.is_empty())
}

/// Returns the command. Its text names only the agent and the tool, because notifications stay on
/// the screen and in histories.
fn words(call: &ApprovalContext<'_>, platform: Platform) -> Vec<String> {
    let name = |name: &str| display_name(name, MAX_NAME);
    let agent = call.agent.map(AgentName::as_str).map_or("An agent".to_owned(), name);
    let (tool, server) = (name(&call.tool.tool), name(call.tool.server.as_str()));
    let text = format!("{agent} wants to call {tool} of {server}. Run: mcp-workbench approvals");
    let words = match platform {
        Platform::MacOs => vec!["osascript", "-e", SCRIPT, TITLE, &text],
        Platform::Linux | Platform::Windows => {
            // The text may contain markup.
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            return ["notify-send", "--app-name=MCP Workbench", "--", TITLE, &text]
                .map(str::to_owned)
                .to_vec();
        }
    };
    words.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use mcp_workbench_names::{ServerName, ToolId, ToolboxName};

    // invariant: server-text-is-escaped
    #[test]
    fn names_are_escaped_and_are_single_arguments() {
        let tool = ToolId {
            toolbox: ToolboxName::new("dev"),
            server: ServerName::new("files"),
            tool: "<b>-x\n\" & do shell script \"id".to_owned(),
        };
        let agent = AgentName::new("ann");
        let (waited, id) = (Duration::ZERO, "1");
        let call = ApprovalContext { id, agent: Some(&agent), session: 1, tool: &tool, waited };
        let linux = words(&call, Platform::Linux);
        assert_eq!(linux[0], "notify-send");
        let text = "ann wants to call &lt;b&gt;-x\\u{a}\" &amp; do shell script \"id of files. Run: \
                    mcp-workbench approvals";
        assert_eq!(linux.last().map(String::as_str), Some(text));
        let mac = words(&call, Platform::MacOs);
        assert_eq!((&*mac[2], &*mac[3], mac.len()), (SCRIPT, TITLE, 5));
    }

    #[test]
    fn flood_of_calls_causes_one_notification() {
        let notifier = DesktopNotifier { environment: Vec::new(), last: Mutex::default() };
        assert!(notifier.is_due() && !notifier.is_due());
    }
}
