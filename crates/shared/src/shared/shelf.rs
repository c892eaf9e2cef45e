//! Records whose number is limited: rests of results, and tasks.
//!
//! Each has its key. Beside them are lists of them, ordered by when their time is over: all of a kind,
//! those of each caller, and those of each session. An entry of a list says all that is needed to find
//! the others. A record is also kept where it was put, for whoever wants it comes there first; it never
//! changes under its name.

use std::sync::Arc;
use std::time::Duration;

use redis::cmd;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::name::AgentName;
use crate::shared::link::{Lane, Link};
use crate::shared::names::{Shelved, hash, session_hash};
use crate::shared::scripts::{EMPTY, ENTER};
use crate::state::{Key, Memory, Record, Room, SessionKey, Store};

/// How long the rest of a result can be found.
const REST: Duration = Duration::from_mins(15);
/// How long a task can be found.
const TASK: Duration = Duration::from_hours(24);
/// The room for rests of all callers together.
const RESTS: Room = Room { count: 1000, bytes: 64 * 1024 * 1024 };
/// The room for tasks of all callers together.
const TASKS: Room = Room { count: 100_000, bytes: usize::MAX };
/// The hash of nobody, in an entry.
const NOBODY: &str = "-";

/// The records whose number is limited.
#[derive(Clone)]
pub(crate) struct Shelf {
    link: Arc<Link>,
    local: Arc<Memory>,
    tasks: TaskTracker,
}

/// A list's knowledge of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    hash: String,
    bytes: usize,
    payer: String,
    session: Option<String>,
}

impl Entry {
    fn new(hash: String, record: &Record) -> Self {
        let (bytes, payer, session) = match record {
            Record::Rest(rest) => (rest.text.len(), rest.payer.as_deref(), rest.session.as_ref()),
            Record::Task { agent, .. } => (0, agent.as_ref().map(AgentName::as_str), None),
            Record::Session(_) | Record::Suspended(_) => (0, None, None),
        };
        let payer = payer.map_or_else(|| NOBODY.to_owned(), self::hash);
        Self { hash, bytes, payer, session: session.map(session_hash) }
    }

    fn text(&self) -> String {
        let Self { hash, bytes, payer, session } = self;
        format!("{hash} {bytes} {payer} {}", session.as_deref().unwrap_or(NOBODY))
    }

    fn parse(text: &str) -> Option<Self> {
        let is_hash = |word: &str| {
            word == NOBODY
                || (word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit()))
        };
        let mut words = text.split(' ');
        let [hash, bytes, payer, session] = [(); 4].map(|()| words.next());
        let (hash, payer, session) = (hash?, payer?, session?);
        let is_whole = [hash, payer, session].into_iter().all(is_hash) && words.next().is_none();
        is_whole.then_some(())?;
        Some(Self {
            hash: hash.to_owned(),
            bytes: bytes?.parse().ok()?,
            payer: payer.to_owned(),
            session: (session != NOBODY).then(|| session.to_owned()),
        })
    }
}

impl Shelf {
    pub(crate) fn new(link: Arc<Link>, local: Arc<Memory>, tasks: TaskTracker) -> Self {
        Self { link, local, tasks }
    }

    /// Puts a record. It is here at once, and in the store unless that takes long.
    pub(crate) async fn put(&self, key: Key, record: Record, room: Room) {
        if let Some((kind, hash)) = Shelved::of(&key)
            && self.link.is_up()
            && let Ok(text) = record.encode()
        {
            let (shelf, entry) = (self.clone(), Entry::new(hash, &record));
            let sharing =
                self.tasks.spawn(async move { shelf.share(kind, entry, text, room).await });
            self.local.put(key, record, room).await;
            // It goes on without whoever waits here.
            let _ = timeout(self.link.limits.answer, sharing).await;
        } else {
            self.local.put(key, record, room).await;
        }
    }

    async fn share(&self, kind: Shelved, entry: Entry, text: String, room: Room) {
        let names = &self.link.names;
        let (lifetime, in_all) = match kind {
            Shelved::Rest => (REST, RESTS),
            Shelved::Task => (TASK, TASKS),
        };
        let lists = [
            Some((names.payers(kind, &entry.payer), room)),
            Some((names.all(kind), larger(room, in_all))),
            entry.session.as_ref().map(|it| (names.sessions(kind, it), Room::ENDLESS)),
        ];
        let mut gone = Vec::new();
        for (list, room) in lists.into_iter().flatten() {
            let lifetime = lifetime.as_millis().to_string();
            let (count, bytes) = (number(room.count).to_string(), number(room.bytes).to_string());
            let words = [entry.text(), entry.hash.clone(), lifetime, count, bytes];
            let words = words.each_ref().map(String::as_bytes);
            let Ok(out) = self.link.run::<Vec<String>>(&ENTER, &list, &words).await else { return };
            gone.extend(out.iter().map(String::as_str).filter_map(Entry::parse));
        }
        if !gone.contains(&entry) {
            let mut set = cmd("SET");
            let lifetime = u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
            set.arg(names.record(kind, &entry.hash)).arg(text).arg("PX").arg(lifetime);
            let _: Result<(), _> = self.link.ask(Lane::Bulk, &set).await;
        }
        for entry in gone {
            self.drop(kind, &entry).await;
        }
    }

    /// Removes a record from the store, and from all lists.
    async fn drop(&self, kind: Shelved, entry: &Entry) {
        let mut del = cmd("DEL");
        del.arg(self.link.names.record(kind, &entry.hash));
        let _: Result<(), _> = self.link.ask(Lane::Quick, &del).await;
        self.strike(kind, entry).await;
    }

    /// Removes a record from all lists.
    async fn strike(&self, kind: Shelved, entry: &Entry) {
        let names = &self.link.names;
        let lists = [
            Some(names.payers(kind, &entry.payer)),
            Some(names.all(kind)),
            entry.session.as_ref().map(|session| names.sessions(kind, session)),
        ];
        for list in lists.into_iter().flatten() {
            let mut strike = cmd("ZREM");
            strike.arg(list).arg(entry.text());
            let _: Result<(), _> = self.link.ask(Lane::Quick, &strike).await;
        }
    }

    /// Finds a record, here first.
    pub(crate) async fn get(&self, key: &Key) -> Option<Record> {
        if let Some(found) = self.local.get(key).await {
            return Some(found);
        }
        let (kind, hash) = Shelved::of(key)?;
        let mut get = cmd("GET");
        get.arg(self.link.names.record(kind, &hash));
        let text: Vec<u8> = self.link.ask::<Option<_>>(Lane::Bulk, &get).await.ok()??;
        read(kind, &text)
    }

    /// Takes a record out of the store; where that cannot be used, from here.
    pub(crate) async fn take(&self, key: &Key) -> Option<Record> {
        let local = self.local.take(key).await;
        let (kind, hash) = Shelved::of(key)?;
        let mut take = cmd("GETDEL");
        take.arg(self.link.names.record(kind, &hash));
        let Ok(text) = self.link.ask::<Option<Vec<u8>>>(Lane::Bulk, &take).await else {
            return local;
        };
        let record = read(kind, &text?)?;
        self.strike(kind, &Entry::new(hash, &record)).await;
        Some(record)
    }

    /// Forgets what was kept for a session that has ended.
    pub(crate) async fn end(&self, session: &SessionKey) {
        let list = self.link.names.sessions(Shelved::Rest, &session_hash(session));
        let entries = self.link.run::<Vec<String>>(&EMPTY, &list, &[]).await.unwrap_or_default();
        for entry in entries.iter().map(String::as_str).filter_map(Entry::parse) {
            self.drop(Shelved::Rest, &entry).await;
        }
    }
}

/// The record that a text is of, if it is one of this kind.
fn read(kind: Shelved, text: &[u8]) -> Option<Record> {
    let record = Record::decode(str::from_utf8(text).ok()?)?;
    let is_it = match kind {
        Shelved::Rest => matches!(record, Record::Rest(_)),
        Shelved::Task => matches!(record, Record::Task { .. }),
    };
    is_it.then_some(record)
}

/// The room in which there is as much as in either.
fn larger(one: Room, other: Room) -> Room {
    Room { count: one.count.max(other.count), bytes: one.bytes.max(other.bytes) }
}

/// A limit as scripts read it: below 0 is any number of bytes.
fn number(limit: usize) -> i64 {
    if limit == usize::MAX { -1 } else { i64::try_from(limit).unwrap_or(i64::MAX) }
}
