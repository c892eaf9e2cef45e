//! Signals that end the program or trigger a reload.

use std::sync::Arc;

use crate::app::error::AppError;
use crate::app::file_watcher::ReloadTrigger;
use mcp_workbench_os::{Signal, has_terminal};

pub async fn run_until_signal<T>(work: impl Future<Output = T>) -> Result<T, AppError> {
    ShutdownSignals::listen(Vec::new())
        .map_err(AppError::InstallSignalHandler)?
        .run_until_signal(work)
        .await
}

pub(crate) struct ShutdownSignals {
    heard: mcp_workbench_os::Signals,
    /// Reloads that SIGHUP triggers. If empty, SIGHUP ends the program.
    reload_triggers: Vec<Arc<ReloadTrigger>>,
    has_terminal: bool,
}

impl ShutdownSignals {
    pub(crate) fn listen(wishes: Vec<Arc<ReloadTrigger>>) -> std::io::Result<Self> {
        Ok(Self {
            heard: mcp_workbench_os::Signals::listen()?,
            has_terminal: !wishes.is_empty() && has_terminal(),
            reload_triggers: wishes,
        })
    }

    pub(crate) async fn run_until_signal<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, AppError> {
        tokio::select! {
            done = work => Ok(done),
            signal = self.next() => Err(AppError::Interrupted(signal)),
        }
    }

    async fn next(&mut self) -> &'static str {
        loop {
            match self.heard.next().await {
                Signal::End(name) => return name,
                // A closing terminal also sends SIGHUP. That one has to end the program.
                Signal::Hangup
                    if !self.reload_triggers.is_empty()
                        && (!self.has_terminal || has_terminal()) =>
                {
                    for wish in &self.reload_triggers {
                        wish.request();
                    }
                }
                Signal::Hangup => return "SIGHUP",
            }
        }
    }
}
