//! A rehearsal of what another process would do with our records, for tests: each is written as text
//! when it is put and read again when it is wanted, and sessions are made anew from theirs again and
//! again. Only the programs that tests are run with can begin it.

use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;

use crate::state::{Answer, Key, Memory, Rate, Record, Room, SessionKey, Store, Tenure};

/// The member that records of sessions lose, if one is named, to show that it is missed.
static WITHOUT: OnceLock<String> = OnceLock::new();

/// Begins it, for this whole process. Records of sessions lose their member `without` when they are
/// read, if they have one of that name.
#[cfg(feature = "test-support")]
pub fn begin(without: String) {
    WITHOUT.get_or_init(|| without);
}

/// Returns `true` once it has begun.
pub fn is_on() -> bool {
    cfg!(feature = "test-support") && WITHOUT.get().is_some()
}

/// A store in memory that has been through text with everything in it.
#[derive(Default)]
pub(crate) struct Written(Memory);

/// The record that comes of this one's text.
fn reread(record: &Record) -> Option<Record> {
    let text = record
        .encode()
        .inspect_err(|error| tracing::error!(%error, "rehearsal: a record cannot be written"));
    let text = text.ok()?;
    let read = Record::decode(&text);
    if read.as_ref() != Some(record) {
        tracing::error!("rehearsal: a record is not what it was before it was written");
    }
    let mut maimed: Value = serde_json::from_str(&text).ok()?;
    let session = maimed["record"].get_mut("session").and_then(Value::as_object_mut);
    let without = WITHOUT.get().map_or("", String::as_str);
    match session.and_then(|session| session.remove(without)) {
        Some(_) => Record::decode(&maimed.to_string()),
        None => read,
    }
}

impl Store for Written {
    fn is_shared(&self) -> bool {
        self.0.is_shared()
    }

    fn put(&self, key: Key, record: Record, room: Room) -> Answer<'_, bool> {
        match reread(&record) {
            Some(record) => self.0.put(key, record, room),
            None => Box::pin(async { true }),
        }
    }

    fn get<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Record>> {
        self.0.get(key)
    }

    fn take<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Record>> {
        self.0.take(key)
    }

    fn count<'a>(&'a self, subject: &'a str, rate: Rate) -> Answer<'a, Result<(), Duration>> {
        self.0.count(subject, rate)
    }

    fn keep<'a>(&'a self, session: &'a SessionKey, tenure: &'a Tenure) -> Answer<'a, bool> {
        self.0.keep(session, tenure)
    }

    fn end(&self, session: &SessionKey, tenure: &Tenure) {
        self.0.end(session, tenure);
    }

    fn remove(&self, key: &Key) {
        self.0.remove(key);
    }
}
