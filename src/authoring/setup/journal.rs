//! The journal of a setup: what was done to which file, and how that is undone.
//!
//! It is written before the first file is, so that a setup that was cut short can be undone as well.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::authoring::service::Manager;
use crate::authoring::setup::entry::is_ours;
use crate::authoring::setup::servers::{EditError, Place, Taken};

/// The form of the journal that this program writes.
pub const VERSION: u32 = 1;

/// The changes of all setups that have not been undone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Journal {
    /// The form of it.
    pub version: u32,
    /// The files, in the order in which they are written.
    pub files: Vec<Record>,
    /// The service that was set up, if one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Managed>,
}

/// A service, as it is stopped and forgotten again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Managed {
    /// Who starts it.
    pub manager: Manager,
    /// Its name there.
    pub name: String,
    /// Where it listens.
    pub address: core::net::SocketAddr,
}

impl Default for Journal {
    fn default() -> Self {
        Self { version: VERSION, files: Vec::new(), service: None }
    }
}

/// One file that was changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its path.
    pub path: String,
    /// The id of its client; `None`: it is our own.
    pub client: Option<String>,
    /// The text before; `None`: there was no such file.
    pub before: Option<String>,
    /// The digest of the text that was written.
    pub after: String,
    /// Our entry: its name and its value.
    pub entry: Option<(String, Value)>,
    /// The servers that were taken out.
    pub taken: Vec<Taken>,
}

/// The outcome of undoing for one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    /// It is as it was before already.
    Same,
    /// It gets its old text back, byte for byte; `None`: it is removed.
    Restored(Option<String>),
    /// It was changed since: our entry goes, and these servers come back. The rest stays.
    Mended {
        /// The new text.
        text: String,
        /// The servers that came back.
        back: Vec<String>,
    },
    /// It was changed since, and is left as it is.
    Kept(String),
}

/// The digest of a text.
pub fn digest(text: &str) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let bytes = Sha256::digest(text.as_bytes());
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

impl Record {
    /// Works out how to undo what was done to the file, which has the text `now`; `place` is where its
    /// client keeps servers.
    pub fn undo(&self, now: Option<&str>, place: Option<Place>) -> Undone {
        if now == self.before.as_deref() {
            return Undone::Same;
        }
        let Some(text) = now else { return Undone::Restored(self.before.clone()) };
        if digest(text) == self.after {
            return Undone::Restored(self.before.clone());
        }
        let Some(place) = place else {
            return Undone::Kept("it was changed since".to_owned());
        };
        match self.mend(text, place) {
            Ok((text, back)) => Undone::Mended { text, back },
            Err(error) => Undone::Kept(error.to_string()),
        }
    }

    /// The text without our entry and with the servers that were taken out, where nothing has their
    /// names now.
    fn mend(&self, text: &str, place: Place) -> Result<(String, Vec<String>), EditError> {
        let mut text = text.to_owned();
        let mut back = Vec::new();
        for taken in &self.taken {
            let there = place.entries(&text)?;
            if there.iter().all(|(name, _)| *name != taken.name) {
                text = place.put_back(&text, taken)?;
                back.push(taken.name.clone());
            }
        }
        if let Some((name, ours)) = &self.entry {
            let there = place.entries(&text)?;
            if there.iter().any(|(other, value)| other == name && is_ours(value, ours)) {
                text = place.take(&text, name)?.0;
            }
        }
        Ok((text, back))
    }
}
