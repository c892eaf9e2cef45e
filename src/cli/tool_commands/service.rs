//! Runs the commands of other processes of the user in this workbench.
//!
//! A command is one more caller: it has its own agent handle, and a gateway without client
//! capabilities, so it never gets anything meant for another agent.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::app::CommandOptions;
use crate::cli::output::{CommandError, redact};
use crate::cli::tool_commands::call::CallCommand;
use crate::cli::tool_commands::command::{CommandContext, ToolCommand};
use crate::cli::tool_commands::events::{self, CommandEvent};
use crate::cli::tool_commands::list::ListCommand;
use crate::cli::tool_commands::protocol::{
    CommandRequest, HEARTBEAT, Hello, Reply, VERSION, put, put_line,
};
use crate::cli::tool_commands::search::SearchCommand;
use mcp_workbench_core::gateway::{AgentHandle, AgentId, Caller, Gateway, GatewayRegistry};
use mcp_workbench_core::telemetry::{QuotaKind, QuotaOwner};
use mcp_workbench_serve::admin::socket::CommandConnection;
use mcp_workbench_settings::{Config, digest_for_commands};
use mcp_workbench_wire::line::{InputLine, LineReader};

/// Returns the service for the admin socket at `socket`. After all agents have left, running
/// commands get the time of `grace`.
pub(crate) fn command_service(socket: Option<&Path>, grace: Duration) -> CommandOptions {
    let socket = socket.map(|path| path.display().to_string()).unwrap_or_default();
    let digests = Arc::new(DigestCache { salt: socket, last: Mutex::default() });
    let handler = move |connection: CommandConnection| {
        let digests = Arc::clone(&digests);
        let CommandConnection { gateways, hello, lines, writer, closing } = connection;
        let session =
            CommandSession { gateways, hello: hello.get().to_owned(), lines, writer, closing };
        let serving: std::pin::Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            // The peer may have left.
            let _ = session.serve(&digests).await;
        });
        serving
    };
    CommandOptions { handler: Arc::new(handler), grace }
}

/// The digest of the configuration last asked for.
struct DigestCache {
    salt: String,
    last: Mutex<Option<(Arc<Config>, String)>>,
}

impl DigestCache {
    fn digest(&self, config: &Arc<Config>) -> String {
        let mut last = self.last.lock();
        match &*last {
            Some((known, digest)) if Arc::ptr_eq(known, config) => digest.clone(),
            _ => {
                let digest = digest_for_commands(config, &self.salt);
                *last = Some((Arc::clone(config), digest.clone()));
                digest
            }
        }
    }
}

struct CommandSession<R, W> {
    gateways: Arc<GatewayRegistry>,
    hello: String,
    lines: LineReader<R>,
    writer: W,
    closing: CancellationToken,
}

/// The agent of one command. Removes it on drop.
struct CommandAgent {
    gateways: Arc<GatewayRegistry>,
    id: AgentId,
}

impl Drop for CommandAgent {
    fn drop(&mut self) {
        self.gateways.remove_agent(self.id);
    }
}

impl<R: AsyncRead + Unpin + Send, W: AsyncWrite + Unpin + Send> CommandSession<R, W> {
    async fn serve(mut self, digests: &DigestCache) -> std::io::Result<()> {
        let (caller, gateway) = match self.accept(digests) {
            Ok(accepted) => accepted,
            Err(reason) => return put(&mut self.writer, &Reply::Declined(reason)).await,
        };
        put(&mut self.writer, &Reply::Ready).await?;
        let Some(InputLine::Message(line)) = self.lines.next().await else { return Ok(()) };
        let request = match serde_json::from_slice::<CommandRequest>(&line) {
            Ok(request) => request,
            Err(error) => {
                return put(&mut self.writer, &Reply::Declined(error.to_string())).await;
            }
        };
        match request.name.as_str() {
            CallCommand::NAME => self.run::<CallCommand>(&request, &caller, &gateway).await,
            ListCommand::NAME => self.run::<ListCommand>(&request, &caller, &gateway).await,
            SearchCommand::NAME => self.run::<SearchCommand>(&request, &caller, &gateway).await,
            other => {
                put(&mut self.writer, &Reply::Declined(format!("unknown command `{other}`"))).await
            }
        }
    }

    /// Returns the caller and its gateway, or the reason why the command must run elsewhere.
    fn accept(&self, digests: &DigestCache) -> Result<(Caller, Arc<Gateway>), String> {
        let hello: Hello = serde_json::from_str(&self.hello).map_err(|error| error.to_string())?;
        if hello.version != VERSION {
            return Err(format!("this workbench has version {VERSION}"));
        }
        if self.closing.is_cancelled() {
            return Err("the workbench is shutting down".to_owned());
        }
        let config = self.gateways.config();
        if digests.digest(&config) != hello.config {
            return Err("the workbench has loaded another configuration".to_owned());
        }
        let caller = Caller { agent: hello.agent, ..Caller::default() };
        self.gateways.admit(&caller, None).map_err(|error| error.to_string())?;
        let gateway = self.gateways.gateway_for(&caller, None);
        if !Arc::ptr_eq(&self.gateways.config(), &config) {
            return Err("the workbench is reloading its configuration".to_owned());
        }
        Ok((caller, gateway))
    }

    async fn run<C: ToolCommand>(
        mut self,
        request: &CommandRequest,
        caller: &Caller,
        gateway: &Gateway,
    ) -> std::io::Result<()> {
        let command = match serde_json::from_str::<C>(request.command.get()) {
            Ok(command) => command,
            Err(error) => {
                return put(&mut self.writer, &Reply::Declined(error.to_string())).await;
            }
        };
        put(&mut self.writer, &Reply::Started).await?;
        let quota = self.gateways.quotas().quota_for(&QuotaOwner::new(caller.agent.as_ref(), None));
        let most = self.gateways.config().limits.per_caller.max_concurrent_calls;
        let Ok(_place) = quota.try_acquire(QuotaKind::Calls, most) else {
            let error = too_many_calls(&quota.payer().to_string(), most);
            return put(&mut self.writer, &Reply::Failed(error)).await;
        };
        let agent = AgentHandle::new(None).with_name(caller.agent.clone()).with_quota(quota);
        let _agent = CommandAgent { gateways: Arc::clone(&self.gateways), id: agent.id };
        let (sender, mut events) = events::channel();
        let context =
            CommandContext { gateway, caller, agent: &agent, events: &sender, is_shared: true };
        let work = command.execute(&context);
        tokio::pin!(work);
        let mut heartbeat = interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let done = loop {
            // Returning drops `work`, which cancels the call at its server.
            tokio::select! {
                done = &mut work => break done,
                Some(event) = events.recv() => match event {
                    CommandEvent::Status(text) => {
                        put(&mut self.writer, &Reply::Status(redact(&text).into_owned())).await?;
                    }
                    // Any program of the user can connect, so none of them can confirm a call.
                    CommandEvent::Confirm(..) => {
                        return put(&mut self.writer, &Reply::Unconfirmed).await;
                    }
                },
                // The command has nothing more to say, so it has left.
                _ = self.lines.next() => return Ok(()),
                _ = heartbeat.tick() => put(&mut self.writer, &Reply::Alive).await?,
            }
        };
        let reply = match done.and_then(|report| {
            serde_json::value::to_raw_value(&report).map_err(CommandError::internal)
        }) {
            Ok(report) => Reply::Done(report),
            Err(error) => Reply::Failed(error),
        };
        // Only this process knows the values that it fetched.
        let line = serde_json::to_string(&reply)?;
        put_line(&mut self.writer, redact(&line).into_owned().into_bytes()).await
    }
}

fn too_many_calls(whose: &str, most: usize) -> CommandError {
    CommandError::failed(format!(
        "{whose} has reached its limit of {most} concurrent calls \
         (`limits.perCaller.maxConcurrentCalls`)"
    ))
    .with_hint("wait for running calls to finish, then retry")
}
