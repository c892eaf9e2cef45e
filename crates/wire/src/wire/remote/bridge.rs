//! A bridge: what a client says on a stream goes to a server over HTTP, and what that says comes back.
//!
//! *Theory of operation.* Every message passes as it is, with its id. [`Passing`] is the end that
//! the server's messages come to, and knows which requests of the client still wait. A server that
//! ends and comes back has lost the session and nothing else: the bridge greets it again as the
//! client did, asks again for what the client followed, and tells it to list again. A request that
//! the server did not take is then sent once more, and one that it may have acted on is answered
//! with an error.

mod greeting;
mod passing;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Url;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::raw::Raw;
use crate::wire::agent;
use crate::wire::budget::Intake;
use crate::wire::envelope::{Message, Outcome};
use crate::wire::line::{Line, LineReader};
use crate::wire::remote::bridge::greeting::Greeting;
use crate::wire::remote::bridge::passing::{Event, Far, Passing, Waiting};
use crate::wire::remote::receiver::Receiver;
use crate::wire::remote::{Address, Credentials, PARTING, start};
use crate::wire::server::Lost;
use crate::wire::writer::Writer;

/// How many messages of the client are read ahead while the server is gone.
const AHEAD: usize = 16;
/// How long a server that takes nothing is tried.
const PATIENCE: Duration = Duration::from_secs(15);
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(200);
/// How long the server may take to answer what the client has asked before.
const GREETING: Duration = Duration::from_secs(10);

/// The server that a bridge leads to.
pub struct Shore {
    /// Its address.
    pub url: Url,
    /// The proof of who asks.
    pub credentials: Arc<dyn Credentials>,
    /// The limit of one message, in bytes.
    pub max: usize,
}

/// The end of a bridge.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// The client has left.
    Left,
    /// The server that came back is another one, to which the session cannot be taken: why.
    Another(String),
}

/// Carries messages between a client on two streams and a server, until the client's input ends or
/// `stop` is cancelled.
///
/// `revive` is asked for the server whenever that does not take messages: it returns once the server
/// answers, or says why it does not.
pub async fn carry<R, W>(
    (input, output): (R, W),
    shore: Shore,
    revive: impl AsyncFn() -> Result<(), String>,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> Result<End, String>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let (lines, read) = mpsc::channel(AHEAD);
    let left = stop.child_token();
    let (over, max) = (left.clone().drop_guard(), shore.max);
    tasks.spawn(async move {
        let mut reader = LineReader::new(input, max);
        while let Some(line) = reader.next().await {
            if lines.send(line).await.is_err() {
                break;
            }
        }
        drop(over);
    });
    let (events, told) = mpsc::unbounded_channel();
    let far = Far::new(Writer::start(output, tasks), events);
    let mut bridge = Bridge {
        current: Span::new(&shore, Passing::new(Arc::clone(&far), 0), tasks)?,
        previous: None,
        generation: 0,
        greeting: Greeting::default(),
        far,
        shore,
        revive,
        left,
        tasks: tasks.clone(),
    };
    let end = tokio::select! {
        end = bridge.serve(read, told) => end,
        () = stop.cancelled() => End::Left,
    };
    bridge.part().await;
    Ok(end)
}

/// One connection to the server.
struct Span {
    writer: Writer,
    passing: Passing,
}

impl Span {
    fn new(shore: &Shore, passing: Passing, tasks: &TaskTracker) -> Result<Self, String> {
        let (writer, outbox) = Writer::detached();
        let address = Address::from(shore.url.clone());
        let server = (address, Arc::clone(&shore.credentials));
        start(server, Intake::from(shore.max), "service", passing.clone(), outbox, tasks)?;
        Ok(Self { writer, passing })
    }
}

struct Bridge<F> {
    shore: Shore,
    far: Arc<Far>,
    current: Span,
    /// The connection before, on which some requests may still be answered.
    previous: Option<Span>,
    generation: u64,
    greeting: Greeting,
    revive: F,
    /// Is cancelled when the client's input has ended.
    left: CancellationToken,
    tasks: TaskTracker,
}

impl<F: AsyncFn() -> Result<(), String>> Bridge<F> {
    async fn serve(
        &mut self,
        mut lines: mpsc::Receiver<Line>,
        mut events: mpsc::UnboundedReceiver<Event>,
    ) -> End {
        loop {
            let done = tokio::select! {
                biased;
                Some(event) = events.recv() => self.heed(event).await,
                line = lines.recv() => match line {
                    Some(Line::Message(line)) => {
                        self.pass(line).await;
                        Ok(())
                    }
                    Some(Line::Oversized { head, tail, length }) => {
                        self.far.refuse(agent::refuse_edges(&head, &tail, length)).await;
                        Ok(())
                    }
                    None => return End::Left,
                },
            };
            if let Err(why) = done {
                return End::Another(why);
            }
        }
    }

    /// Passes one message of the client on.
    async fn pass(&mut self, line: Bytes) {
        match Message::parse(&line) {
            Ok(Message::Request { id, method, .. }) => {
                self.greeting.asked(&method, &id, &line);
                let since = Instant::now();
                let request = Waiting {
                    line: line.clone(),
                    is_greeting: method == "initialize",
                    since,
                    generation: self.generation,
                    tries: 0,
                };
                self.far.wait_for(&id, request);
            }
            Ok(Message::Notification { method, params }) => {
                self.greeting.told(&method, &line);
                if method == "notifications/cancelled" {
                    self.far.cancel(params.as_ref());
                }
            }
            // It answers what a server asked that has ended since.
            Ok(Message::Answer { id, .. }) if !self.far.was_asked(&id, self.generation) => return,
            Ok(Message::Answer { .. }) => {}
            Err(malformed) => return self.far.refuse(agent::refuse(&malformed)).await,
        }
        // What does not get there is answered by whoever knows why.
        let _ = self.current.writer.send(vec![line]).await;
    }

    /// Does what an event calls for. Fails where the session cannot go on.
    async fn heed(&mut self, event: Event) -> Result<(), String> {
        let id = match event {
            Event::Lost(generation) if generation == self.generation => return self.renew().await,
            Event::Lost(_) => return Ok(()),
            Event::Again(id) => id,
        };
        let Some(request) = self.far.waiting(&id) else { return Ok(()) };
        if request.since.elapsed() > PATIENCE {
            self.far.give_up(&id, "it takes no requests").await;
            return Ok(());
        }
        if request.generation == self.generation {
            if request.tries > 0 {
                self.left.run_until_cancelled(sleep(PAUSE)).await;
            }
            self.renew().await?;
        }
        if self.far.moved(&id, self.generation) {
            let _ = self.current.writer.send(vec![request.line]).await;
        }
        Ok(())
    }

    /// Has the server answer again, and takes the session there if that has lost it. Where it does not
    /// come back, whatever waits is answered with that, and the next message tries again.
    async fn renew(&mut self) -> Result<(), String> {
        let left = self.left.clone();
        let until = Instant::now() + PATIENCE;
        let renewing = async {
            loop {
                let why = match (self.revive)().await {
                    Err(why) => why,
                    Ok(()) if !self.current.passing.is_lost() => return Ok(()),
                    Ok(()) => match self.greet_again().await {
                        Greeted::Yes => return Ok(()),
                        Greeted::Later(why) => why,
                        Greeted::Never(why) => return Err(why),
                    },
                };
                if Instant::now() > until {
                    self.far.give_up_all(&why).await;
                    return Ok(());
                }
                sleep(PAUSE).await;
            }
        };
        left.run_until_cancelled(renewing).await.unwrap_or(Ok(()))
    }

    /// Connects anew, and begins the session of the client there if it has one.
    async fn greet_again(&mut self) -> Greeted {
        let Some((hello, before)) = self.greeting.hello(&self.far) else {
            // It had not begun, so nothing is lost.
            return self.connect().map_or_else(Greeted::Later, |()| Greeted::Yes);
        };
        if let Err(why) = self.connect() {
            return Greeted::Later(why);
        }
        let result = match self.ask_again(&hello.id, hello.line).await {
            Some(Outcome::Result(result)) => result,
            refused => {
                let why = match refused {
                    Some(Outcome::Error(error)) => format!("it refuses the session: {error:?}"),
                    _ => "it does not answer the greeting".to_owned(),
                };
                // The next try is one with the session that was lost.
                self.current.passing.lose(Lost::Session);
                return Greeted::Later(why);
            }
        };
        if let Err(why) = greeting::check_same(&before, &result) {
            return Greeted::Never(why);
        }
        if let Some(initialized) = self.greeting.initialized() {
            let _ = self.current.writer.send(vec![initialized]).await;
            for (id, line) in self.greeting.followed() {
                self.ask_again(&id, line).await;
            }
            self.far.forget_questions(self.generation).await;
            for method in greeting::lists(&result) {
                self.far.tell(method, None).await;
            }
        }
        Greeted::Yes
    }

    /// Makes a new connection. Of the one before, requests may still be answered; what waits on the one
    /// before that is answered with an error.
    fn connect(&mut self) -> Result<(), String> {
        self.generation += 1;
        let passing = Passing::new(Arc::clone(&self.far), self.generation);
        let span = Span::new(&self.shore, passing, &self.tasks)?;
        let before = std::mem::replace(&mut self.current, span);
        if let Some(older) = self.previous.replace(before) {
            older.passing.close();
        }
        Ok(())
    }

    /// Sends a request that the client has sent before; its answer is for us.
    async fn ask_again(&self, id: &Raw, line: Bytes) -> Option<Outcome> {
        let answer = self.current.passing.expect(id);
        self.current.writer.send(vec![line]).await.ok()?;
        timeout(GREETING, answer).await.ok()?.ok()
    }

    /// Ends the session.
    async fn part(self) {
        self.current.writer.close();
        // The server is told; what waits is not answered any more.
        let _ = timeout(PARTING, self.current.passing.closed()).await;
        let _ = timeout(PARTING, self.far.flush()).await;
    }
}

/// The outcome of greeting a server again.
enum Greeted {
    Yes,
    /// Not yet: why.
    Later(String),
    /// The session cannot be taken to it: why.
    Never(String),
}

#[cfg(test)]
mod tests;
