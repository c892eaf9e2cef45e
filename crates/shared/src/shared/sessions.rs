//! Records of sessions: each is one hash, with whose it is beside its text.
//!
//! Whoever goes on with a session has its record in memory, too, and puts it again where the store has
//! lost it. A session that has ended stays in the store as that for a while, or else somebody who had
//! it once would put it again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::shared::link::{Link, NoAnswer};
use crate::shared::scripts::{END, FIND, KEEP, PUT};
use crate::state::{Key, Memory, Record, Room, Session, SessionKey, Store, Tenure};

/// The most bytes of the text of a session.
pub(crate) const MAX_TEXT: usize = 16 * 1024;
/// A session is prolonged so often at most.
const INTERVAL: Duration = Duration::from_secs(30);
/// How often the log says that a record is too long.
const PAUSE: Duration = Duration::from_mins(1);

/// The records of sessions.
pub(crate) struct Sessions {
    link: Arc<Link>,
    local: Arc<Memory>,
    /// How long a session is kept that nobody uses, in milliseconds.
    idle_ms: String,
    interval: Duration,
    /// When each session of ours was prolonged last, and for whom.
    kept: Mutex<HashMap<SessionKey, (Instant, Tenure)>>,
    warned: Mutex<Option<Instant>>,
}

impl Sessions {
    pub(crate) fn new(link: Arc<Link>, local: Arc<Memory>, idle: Duration) -> Self {
        Self {
            link,
            local,
            idle_ms: idle.as_millis().max(1).to_string(),
            interval: INTERVAL.min(idle / 3),
            kept: Mutex::default(),
            warned: Mutex::default(),
        }
    }

    fn kept<T>(&self, f: impl FnOnce(&mut HashMap<SessionKey, (Instant, Tenure)>) -> T) -> T {
        f(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn has_kept(&self, session: &SessionKey, tenure: &Tenure) {
        self.kept(|kept| kept.insert(session.clone(), (Instant::now(), tenure.clone())));
    }

    /// Forgets a session here alone, if it is this one's.
    pub(crate) fn forget(&self, session: &SessionKey, tenure: &Tenure) {
        self.local.end(session, tenure);
        self.kept(|kept| kept.remove(session));
    }

    /// Forgets a session that somebody else goes on with, or that has ended.
    fn lose(&self, session: &SessionKey) {
        self.local.remove(&Key::Session(session.clone()));
        self.kept(|kept| kept.remove(session));
    }

    /// Puts a record. Returns `false` if somebody else goes on with the session, or it has ended.
    pub(crate) async fn put(&self, session: &SessionKey, record: Arc<Session>) -> bool {
        let tenure = record.tenure.clone();
        let text = Record::Session(Arc::clone(&record)).encode().unwrap_or_default();
        let text = if text.len() > MAX_TEXT { self.too_long(&text) } else { text.as_str() };
        let [owner, epoch] = words(&tenure);
        let arguments = [&*owner, &*epoch, &*self.idle_ms, text].map(str::as_bytes);
        let is_put = self.link.run(&PUT, &self.link.names.session(session), &arguments).await;
        if is_put == Ok(0_u8) {
            self.lose(session);
            return false;
        }
        let key = Key::Session(session.clone());
        let is_ours = self.local.put(key, Record::Session(record), Room::ENDLESS).await;
        if is_put.is_ok() && is_ours {
            self.has_kept(session, &tenure);
        }
        is_ours
    }

    /// Says in the log that the text of a session is too long, and returns what is put in its place.
    fn too_long(&self, text: &str) -> &'static str {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.is_none_or(|warned| warned.elapsed() >= PAUSE) {
            *warned = Some(Instant::now());
            tracing::warn!(
                "a session's record has {} bytes, more than the {MAX_TEXT} that are shared; no other \
                 workbench can go on with that session",
                text.len()
            );
        }
        ""
    }

    /// Finds a record.
    pub(crate) async fn get(&self, session: &SessionKey) -> Option<Record> {
        let key = Key::Session(session.clone());
        let most = MAX_TEXT.to_string();
        let found: Result<Vec<Vec<u8>>, _> =
            self.link.run(&FIND, &self.link.names.session(session), &[most.as_bytes()]).await;
        match found.as_deref() {
            Ok([is_over, ..]) if is_over == b"1" => {
                self.lose(session);
                None
            }
            Ok([_, text]) => {
                let record = Record::decode(str::from_utf8(text).ok()?)?;
                matches!(record, Record::Session(_)).then_some(record)
            }
            _ => self.local.get(&key).await,
        }
    }

    /// Takes a record out, whoever goes on with it.
    pub(crate) async fn take(&self, session: &SessionKey) -> Option<Record> {
        let record = self.get(session).await;
        self.lose(session);
        let Some(Record::Session(found)) = &record else { return None };
        let is_ended = self.end_as(session, &found.tenure).await;
        record.filter(|_| is_ended != Ok(0))
    }

    /// Says that a session is still used. Returns `false` if somebody else goes on with it, or it has ended.
    pub(crate) async fn keep(&self, session: &SessionKey, tenure: &Tenure) -> bool {
        let is_recent = self.kept(|kept| {
            kept.get(session)
                .is_some_and(|(since, whose)| whose == tenure && since.elapsed() < self.interval)
        });
        if is_recent {
            return true;
        }
        let [owner, epoch] = words(tenure);
        let arguments = [&*owner, &*epoch, &*self.idle_ms].map(str::as_bytes);
        let kept = self.link.run(&KEEP, &self.link.names.session(session), &arguments).await;
        match kept {
            Ok(0_u8) => {
                self.lose(session);
                false
            }
            Ok(1) => {
                self.has_kept(session, tenure);
                true
            }
            Ok(_) => match self.local.get(&Key::Session(session.clone())).await {
                Some(Record::Session(record)) if record.tenure == *tenure => {
                    self.put(session, record).await
                }
                _ => true,
            },
            Err(_) => self.local.keep(session, tenure).await,
        }
    }

    /// Ends a session in the store. Returns `false` if somebody else goes on with it, or the store cannot
    /// be used.
    pub(crate) async fn end(&self, session: &SessionKey, tenure: &Tenure) -> bool {
        self.end_as(session, tenure).await == Ok(1)
    }

    async fn end_as(&self, session: &SessionKey, tenure: &Tenure) -> Result<u8, NoAnswer> {
        let [owner, epoch] = words(tenure);
        let arguments = [&*owner, &*epoch, &*self.idle_ms].map(str::as_bytes);
        self.link.run(&END, &self.link.names.session(session), &arguments).await
    }
}

/// A tenure in words.
fn words(tenure: &Tenure) -> [String; 2] {
    [tenure.owner.clone(), tenure.epoch.to_string()]
}
