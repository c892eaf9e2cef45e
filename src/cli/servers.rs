//! Starting servers for a report on what each has, and what came of each. A server that has been
//! listed ends again, so that many servers need no more room than a few.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::catalog::shorten;
use crate::cli::progress::Spinner;
use crate::gateway::{FailedServer, Gateway, Presence, Urgency};
use crate::name::{ServerName, ServerRef, ToolboxName};
use crate::settings::ToolboxConfig;

/// The longest line of progress, in characters.
const SPINNER: usize = 70;

/// A server that was asked to start.
pub(crate) struct Start {
    pub(crate) toolbox: ToolboxName,
    pub(crate) server: ServerName,
    /// How long it took to its tool list, or to its failure.
    pub(crate) took: Duration,
    pub(crate) failure: Option<FailedServer>,
}

impl Start {
    /// Why it failed and what to do, with everything after the first line indented.
    pub(crate) fn explanation(&self) -> Option<String> {
        let FailedServer { reason, hint, wants_sign_in, .. } = self.failure.as_ref()?;
        if *wants_sign_in {
            let (toolbox, server) = (&self.toolbox, &self.server);
            return Some(format!("`{toolbox}/{server}` wants sign-in\n  hint: {hint}"));
        }
        Some(format!(
            "`{}/{}` could not be started: {}\n  hint: {}",
            self.toolbox,
            self.server,
            reason.replace('\n', "\n    "),
            hint.replace('\n', "\n        "),
        ))
    }
}

/// Starts the servers of these toolboxes that are wanted, waits for each as long as its configuration
/// says, and ends those that have been listed. Returns when what they list is kept.
pub(crate) async fn start(
    gateway: &Gateway,
    toolboxes: &[&ToolboxConfig],
    is_wanted: impl Fn(&ServerRef) -> bool,
) -> Vec<Start> {
    start_each(gateway, toolboxes, is_wanted, |_| {}).await
}

/// Starts them likewise, and looks at each before it is ended.
pub(crate) async fn start_each(
    gateway: &Gateway,
    toolboxes: &[&ToolboxConfig],
    is_wanted: impl Fn(&ServerRef) -> bool,
    mut look: impl FnMut(&Start),
) -> Vec<Start> {
    let mut starting = JoinSet::new();
    let mut waiting = Vec::new();
    let nobody = Presence::new(None);
    for toolbox in toolboxes {
        for server in &toolbox.servers {
            let server_ref =
                ServerRef { toolbox: toolbox.name.clone(), server: server.name.clone() };
            if !is_wanted(&server_ref) {
                continue;
            }
            let ServerRef { toolbox, server } = server_ref;
            let index = waiting.len();
            waiting.push(Some(format!("{toolbox}/{server}")));
            let start = gateway.start(&toolbox, &server, &nobody, Urgency::Background);
            let began = Instant::now();
            starting.spawn(async move {
                let failure = start.await.err();
                let start = Start { toolbox, server, took: began.elapsed(), failure };
                (index, start)
            });
        }
    }
    let spinner = Spinner::new("");
    let mut starts = Vec::new();
    loop {
        let left: Vec<&str> = waiting.iter().flatten().map(String::as_str).collect();
        spinner.say(&shorten(&format!("waiting for {}", left.join(", ")), SPINNER));
        match starting.join_next().await {
            None => break,
            Some(Ok((index, start))) => {
                look(&start);
                gateway.retire(&start.toolbox, &start.server);
                waiting[index] = None;
                starts.push((index, start));
            }
            Some(Err(error)) => tracing::error!(%error, "a start was lost"),
        }
    }
    gateway.kept().await;
    starts.sort_by_key(|(index, _)| *index);
    starts.into_iter().map(|(_, start)| start).collect()
}
