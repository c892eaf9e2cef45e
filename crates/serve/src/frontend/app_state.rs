//! The state that all sessions share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio_util::task::TaskTracker;

use crate::admin::{AdminApi, ConfigSource};
use crate::frontend::suspended_calls::SuspendedCalls;
use crate::gateway::{Caller, GatewayRegistry};

/// State shared by all sessions. Clones refer to the same state.
#[derive(Clone)]
pub struct AppState {
    pub gateways: Arc<GatewayRegistry>,
    pub(crate) suspended: Arc<SuspendedCalls>,
    pub(crate) tickets: Arc<AtomicU64>,
    pub tasks: TaskTracker,
    pub(crate) admin: AdminApi,
    /// A random name of this process among those that share a store. Not a secret.
    pub replica: Arc<str>,
}

impl AppState {
    /// Creates the state for these gateways. Background work of sessions runs on `tasks`.
    ///
    /// # Errors
    ///
    /// Fails if the operating system provides no random numbers.
    pub fn new(
        gateways: Arc<GatewayRegistry>,
        tasks: &TaskTracker,
    ) -> Result<Self, getrandom::Error> {
        let (mut key, mut name) = ([0; 32], [0; 8]);
        getrandom::fill(&mut key)?;
        getrandom::fill(&mut name)?;
        let replica: Arc<str> = format!("{:016x}", u64::from_ne_bytes(name)).into();
        let admin =
            AdminApi::new(Arc::clone(&gateways), Caller::ANONYMOUS, ConfigSource::default());
        Ok(Self {
            admin,
            gateways,
            suspended: Arc::new(SuspendedCalls::new(key, Arc::clone(&replica))),
            replica,
            tickets: Arc::default(),
            tasks: tasks.clone(),
        })
    }

    #[must_use]
    pub fn with_admin(self, admin: AdminApi) -> Self {
        Self { admin, ..self }
    }

    pub fn admin(&self) -> &AdminApi {
        &self.admin
    }

    /// The longest name of a tool or prompt, in bytes.
    pub(crate) fn max_name_length(&self) -> usize {
        self.gateways.config().max_tool_name_length
    }

    pub(crate) fn next_ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::Relaxed)
    }
}
