//! The other end of a link: a child process of ours, or a server over HTTP.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::backend::death::{Cause, StderrTail};
use crate::backend::launch::{self, Custody, Process, cell};
use crate::backend::{Context, Reach, Remote, Spec, StartFailure};
use crate::observe::Secrets;
use crate::settings::{HttpTransport, StdioLaunch};
use crate::wire::budget::Intake;
use crate::wire::remote::{self, Address, Transport};
use crate::wire::server::{self, Hear, Link, Lost};

/// How long the last lines of standard error are waited for.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// How long a server over HTTP may take to hear that the session ends.
const PARTING: Duration = Duration::from_secs(1);

/// A server at the other end of a link.
pub(crate) enum Upstream {
    /// A child process.
    Child {
        process: Box<Process>,
        stderr: StderrTail,
        /// Reads standard error.
        drain: JoinHandle<()>,
    },
    /// A server that is there without us.
    Remote,
}

impl Upstream {
    /// Starts the server where it has to be started, and connects to it; by HTTP with SSE where that
    /// is known to be what it speaks.
    pub(crate) async fn open(
        spec: &Spec,
        secrets: &Arc<Secrets>,
        context: &Context,
        is_old: bool,
        hear: impl Hear,
    ) -> Result<(Self, Link), StartFailure> {
        match &spec.reach {
            Reach::Stdio(launch) => start_child(launch, spec, secrets, context, hear).await,
            Reach::Http(Remote { url, transport, credentials, .. }) => {
                let (intake, label) = (intake(spec, context), &spec.label);
                let credentials = Arc::clone(credentials);
                let transport = match transport {
                    HttpTransport::Auto if !is_old => Transport::Either,
                    HttpTransport::Auto | HttpTransport::Sse => Transport::Sse,
                };
                let address = Address { url: url.clone(), transport };
                let link =
                    remote::connect(address, credentials, intake, label, hear, &context.tasks);
                let link = link.map_err(|reason| {
                    StartFailure::new(
                        format!("no connection can be made: {reason}"),
                        "install the certificates of this system (`ca-certificates`)".to_owned(),
                    )
                })?;
                Ok((Self::Remote, link))
            }
        }
    }

    /// The process, if it is one of ours.
    pub(crate) fn id(&self) -> Option<u32> {
        match self {
            Self::Child { process, .. } => process.id(),
            Self::Remote => None,
        }
    }

    /// Resolves when the process has ended.
    pub(crate) async fn left(&mut self) {
        match self {
            Self::Child { process, .. } => process.left().await,
            Self::Remote => std::future::pending().await,
        }
    }

    /// The last lines of standard error, as they come; a server over HTTP shows none.
    pub(crate) fn last_words(&self) -> Option<StderrTail> {
        match self {
            Self::Child { stderr, .. } => Some(stderr.clone()),
            Self::Remote => None,
        }
    }

    /// Ends the link and what is at its end, and says how that ended.
    pub(crate) async fn end(self, link: &Link) -> Cause {
        link.close_input();
        match self {
            Self::Child { process, stderr, mut drain } => {
                let status = process.end().await;
                // A child of the server that has left its group may hold its output open.
                link.close();
                if timeout(LAST_WORDS, &mut drain).await.is_err() {
                    drain.abort();
                }
                Cause::new(status, &stderr)
            }
            Self::Remote => {
                let has_parted = timeout(PARTING, link.closed()).await.is_ok();
                link.close();
                tracing::debug!(has_parted, "the session has ended");
                Cause::without_words(match link.lost() {
                    Some(Lost::Session) => "it does not know the session any more",
                    Some(Lost::Connection) | None => "the connection to it was lost",
                })
            }
        }
    }
}

/// Returns the bounds of what is read from a server.
fn intake(spec: &Spec, context: &Context) -> Intake {
    Intake { max: spec.max_message_bytes, account: context.said.account() }
}

async fn start_child(
    launch: &StdioLaunch,
    spec: &Spec,
    secrets: &Arc<Secrets>,
    context: &Context,
    hear: impl Hear,
) -> Result<(Upstream, Link), StartFailure> {
    let program = context.program.as_deref();
    let home = context.homes.as_ref().map(|homes| cell::home_of(homes, spec.server.as_str()));
    let custody = Custody { launched: context.strays.launch(), home };
    let (process, streams) =
        launch::spawn_as(launch, &spec.environment, program, Some(custody)).await?;
    let stderr = StderrTail::new(Arc::clone(secrets));
    let drain = context.tasks.spawn(stderr.clone().drain(streams.stderr, spec.label.clone()));
    let (intake, label) = (intake(spec, context), &spec.label);
    let link = server::connect(streams.stdout, streams.stdin, intake, label, hear, &context.tasks);
    Ok((Upstream::Child { process: Box::new(process), stderr, drain }, link))
}
