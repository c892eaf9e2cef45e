//! The way of a message: it is taken by the peer it belongs to, dealt with in a task, and answered
//! with one message or with a stream of them.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderValue;
use hyper::{HeaderMap, StatusCode};
use tokio::sync::mpsc;

use crate::frontend::dispatch;
use crate::frontend::era::RequestMeta;
use crate::frontend::http::Server;
use crate::frontend::http::clock::Clock;
use crate::frontend::http::drain::Ticket;
use crate::frontend::http::endpoint::{Who, reader};
use crate::frontend::http::headers::{self, Accepts, SESSION};
use crate::frontend::http::message::Message;
use crate::frontend::http::response::{self, Refusal, Reply, bad_request};
use crate::frontend::http::room::Room;
use crate::frontend::http::sessions::{Connected, Full};
use crate::frontend::http::stream::carry;
use crate::frontend::http::work::Work;
use crate::frontend::session::Session;
use crate::frontend::until::until;
use crate::observe::Holding;
use crate::raw::Raw;
use crate::state::{Rate, SessionKey, rehearsal};
use crate::wire;
use crate::wire::agent::Notifier;
use crate::wire::cancellation::Cancellation;
use crate::wire::code::{
    HEADER_MISMATCH, INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
};
use crate::wire::incoming::{self, Incoming, Sent};
use crate::wire::peer::Peer;
use crate::wire::writer::{self, Outbox, Writer};

/// How long the first message is waited for before the client is shown that we are at it. Clients
/// give up on a response that does not begin within minutes.
const PATIENCE: Duration = Duration::from_secs(10);

/// A request that is under way.
struct UnderWay<'a> {
    whose: Whose,
    ticket: Option<Ticket>,
    /// The room for what answers it.
    room: Room,
    /// Of the connection that it came on.
    clock: &'a Clock,
    /// The rest of what is to be done for it.
    work: Work,
}

/// The owner of a request.
enum Whose {
    /// A legacy agent's, and whether it begins the session.
    Legacy(Arc<Connected>, bool),
    /// Its own: a modern one, which is cancelled by this.
    Modern(Cancellation),
}

impl Server {
    /// Deals with a message of the modern form.
    pub(crate) async fn modern(
        &self,
        message: Message,
        headers: &HeaderMap,
        accepts: Accepts,
        who: &Who,
    ) -> Result<Reply, Refusal> {
        match message.read {
            wire::Message::Request { .. } => {}
            // There is none that means anything to a server.
            wire::Message::Notification { .. } => {
                return Ok(response::empty(StatusCode::ACCEPTED));
            }
            wire::Message::Answer { .. } => {
                return Err(bad_request(INVALID_REQUEST, "nothing was asked, so nothing answered"));
            }
        }
        let ticket = self.under_way.begin(None).ok_or_else(ending)?;
        // Who only listens is not waited for.
        let ticket = (!message.listens()).then_some(ticket);
        let session = {
            let (caller, purse) = (who.caller.clone(), Arc::clone(&who.purse));
            Session::new(&self.app, caller, purse, None, None)
        };
        headers::check(&message, headers)?;
        if message.method() == "tools/call"
            && let Some(tool) = message.name()
        {
            let mirrored = mirrored(&session, message.meta().as_ref(), &tool).await;
            headers::check_arguments(&message, headers, &mirrored)?;
        }
        let (writer, outbox) = Writer::detached();
        let taken = Peer::new().take_message(message.read, &writer);
        let Some(Incoming::Request(request)) = taken else {
            return Err(bad_request(INVALID_REQUEST, "expected a request"));
        };
        let cancellation = request.reply.cancellation().clone();
        // The session is that of this request alone, and ends when nothing needs it any more.
        let answer = dispatch::answer(session, request);
        let work = Work::new(&self.tasks, until(&self.leaving, answer));
        drop(writer);
        let (whose, room) = (Whose::Modern(cancellation), Room::of(&who.purse));
        let under_way = UnderWay { whose, ticket, room, clock: &who.clock, work };
        Ok(self.respond(outbox, accepts, headers, under_way).await)
    }

    /// Deals with a message of the older form.
    pub(crate) async fn legacy(
        &self,
        message: Message,
        headers: &HeaderMap,
        accepts: Accepts,
        who: &Who,
    ) -> Result<Reply, Refusal> {
        let is_request = message.id().is_some();
        let begins =
            is_request && message.method() == "initialize" && !headers.contains_key(&SESSION);
        let connected = match (begins, message.belongs_to_request()) {
            (true, _) => self.begin(who).await?,
            (false, false) => self.session(headers, who).await?,
            (false, true) => self.session_here(headers, who, message.answered()).await?,
        };
        connected.touch();
        // What is under way may need to be told something, and to be answered.
        if is_request && rehearsal::is_on() {
            Box::pin(connected.renew()).await;
        }
        let ticket = is_request
            .then(|| self.under_way.begin(Some(&connected.requests)).ok_or_else(ending))
            .transpose()?;
        let (writer, outbox) = Writer::detached();
        let request = match connected.peer.take_message(message.read, &writer) {
            Some(Incoming::Request(request)) => request,
            Some(Incoming::Notification { method, params }) => {
                connected.session().hears(&method, params.as_ref());
                return Ok(response::empty(StatusCode::ACCEPTED));
            }
            None => return Ok(response::empty(StatusCode::ACCEPTED)),
        };
        let answer = dispatch::answer(connected.session(), request);
        let work = Work::new(&self.tasks, until(&connected.stopped, answer));
        drop(writer);
        let whose = Whose::Legacy(Arc::clone(&connected), begins);
        let under_way =
            UnderWay { whose, ticket, room: Room::of(&who.purse), clock: &who.clock, work };
        let mut reply = self.respond(outbox, accepts, headers, under_way).await;
        if begins
            && self.sessions.get(&connected.id, &who.caller).is_some()
            && let Ok(id) = HeaderValue::from_str(&connected.id)
        {
            reply.headers_mut().insert(SESSION.clone(), id);
        }
        Ok(reply)
    }

    /// Begins a session.
    async fn begin(&self, who: &Who) -> Result<Arc<Connected>, Refusal> {
        self.count_session(who).await?;
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| {
            let message = format!("no session id could be made: {error}");
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, INTERNAL_ERROR, &message)
        })?;
        if self.under_way.is_ending() {
            return Err(ending());
        }
        let id = format!("{:032x}", u128::from_ne_bytes(random));
        let (writer, outbox) = Writer::detached();
        let peer = Peer::new();
        let notifier = Notifier::new(peer.clone(), writer);
        let key = SessionKey::of_id(&id);
        let session = {
            let (caller, purse) = (who.caller.clone(), Arc::clone(&who.purse));
            Session::new(&self.app, caller, purse, Some(notifier), Some(key))
        };
        let ended = self.leaving.child_token();
        let connected = Arc::new(Connected::new(id, session, peer, ended));
        self.take_in(&connected, outbox).inspect_err(|_| connected.end())?;
        Ok(connected)
    }

    /// Counts one more session that a caller begins, or goes on with here.
    pub(crate) async fn count_session(&self, who: &Who) -> Result<(), Refusal> {
        let limits = self.app.gateways.config().limits.per_caller;
        let rate = Rate { per_minute: limits.sessions_per_minute };
        let subject = format!("sessions of {}", who.purse.payer().counter_key());
        self.app.gateways.store().count(&subject, rate).await.map_err(|wait| {
            who.purse.reaches(Holding::Sessions);
            Refusal::too_often(
                &format!(
                    "{} may begin {} sessions a minute (limits.perCaller.sessionsPerMinute)",
                    who.purse.payer(),
                    limits.sessions_per_minute
                ),
                wait,
            )
        })
    }

    /// Takes a session in, if there is room; what comes out of `outbox` belongs to none of its requests.
    pub(crate) fn take_in(
        &self,
        connected: &Arc<Connected>,
        outbox: Outbox,
    ) -> Result<(), Refusal> {
        // The first stream is that of what belongs to no request.
        connected.carry(outbox, None, None, &self.tasks);
        let config = self.app.gateways.config();
        let most = [config.limits.per_caller.max_sessions, config.http.max_sessions];
        self.sessions.insert(Arc::clone(connected), most).map_err(|Full| {
            Refusal::for_now(
                "there are as many sessions as there may be (limits.perCaller.maxSessions, \
                 http.maxSessions), and none of yours can end for another",
            )
        })?;
        self.sessions.watch(connected, self.under_way.draining(), &self.tasks);
        Ok(())
    }

    /// Makes a response of all that belongs to one request.
    async fn respond(
        &self,
        mut outbox: Outbox,
        accepts: Accepts,
        headers: &HeaderMap,
        request: UnderWay<'_>,
    ) -> Reply {
        let UnderWay { whose, ticket, room, clock, mut work } = request;
        // A client that leaves before the response has begun cancels what is its own.
        let leaves = match &whose {
            Whose::Modern(cancellation) => Some(cancellation.clone().drop_guard()),
            Whose::Legacy(..) => None,
        };
        let first = loop {
            let message = match clock.timeout(PATIENCE, work.until_sent(&mut outbox)).await {
                Ok(Some(message)) => message,
                Ok(None) => break None,
                Err(_) if accepts.events => break None,
                Err(_) => continue,
            };
            match incoming::sent(&message.parts) {
                sent @ (Sent::Result | Sent::Error(_)) if accepts.json => {
                    let status = self.status(&whose, &sent);
                    let reply = whole(message, status, &room).await;
                    if let Some(guard) = leaves {
                        guard.disarm();
                    }
                    return reply;
                }
                _ if accepts.events => break Some(message),
                // What there is no stream for is left out; whoever asks must know.
                Sent::Question => drop(message),
                Sent::Notice | Sent::Result | Sent::Error(_) => {
                    writer::Message::done(message.written);
                }
            }
        };
        if let Some(guard) = leaves {
            guard.disarm();
        }
        if !accepts.events {
            return response::empty(StatusCode::ACCEPTED);
        }
        let (events, receiver) = mpsc::channel(1);
        match whose {
            Whose::Modern(cancellation) => {
                let carry = carry(first, outbox, events, cancellation, ticket, room);
                self.tasks.spawn(until(&self.leaving, carry));
            }
            Whose::Legacy(connected, _) => {
                let number = connected.carry(outbox, first, ticket, &self.tasks);
                connected.read(number, reader(headers, events, None));
            }
        }
        response::events(receiver)
    }

    /// The status that goes with an answer.
    fn status(&self, whose: &Whose, answer: &Sent) -> StatusCode {
        match (whose, answer) {
            (Whose::Modern(_), Sent::Error(UNSUPPORTED_PROTOCOL_VERSION..=HEADER_MISMATCH)) => {
                StatusCode::BAD_REQUEST
            }
            (Whose::Modern(_), Sent::Error(METHOD_NOT_FOUND)) => StatusCode::NOT_FOUND,
            (Whose::Legacy(connected, true), Sent::Error(_)) => {
                // What did not begin need not be kept.
                self.sessions.end(&connected.id);
                StatusCode::OK
            }
            _ => StatusCode::OK,
        }
    }
}

/// Nothing new is taken.
pub(crate) fn ending() -> Refusal {
    Refusal::for_now("this server is about to end and takes nothing new")
}

/// The arguments of a tool that headers repeat.
async fn mirrored(session: &Session, meta: Option<&Raw>, tool: &str) -> Vec<(String, String)> {
    // What is wrong with it, and that there is no room for it, `dispatch` says.
    let Ok(meta) = RequestMeta::read(meta) else {
        return Vec::new();
    };
    if session.admit(&meta).is_err() {
        return Vec::new();
    }
    let exposure = session.exposure(&meta);
    exposure.start_everything(&session.presence(&meta)).await;
    exposure.mirrored(tool)
}

/// A message as the whole response, once there is room for it.
async fn whole(message: writer::Message, status: StatusCode, room: &Room) -> Reply {
    let Some((writer::Message { parts, written }, charge)) = room.wait_for(message).await else {
        return response::empty(StatusCode::ACCEPTED);
    };
    let reply = response::message(status, charge.attach(parts.concat().into()));
    writer::Message::done(written);
    reply
}
