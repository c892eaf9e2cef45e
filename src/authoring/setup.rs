//! Putting the workbench into the files of clients in place of their servers, and taking it out again.
//!
//! Pure: texts come in and go out. `servers` changes the servers of a file, whichever syntax it has, and
//! proves of each change that it changes nothing else; `entry` is what clients start the workbench by;
//! `journal` remembers what was done, and undoes it.

use serde_json::Value;

use crate::authoring::setup::servers::{EditError, Place, Taken};

pub mod entry;
pub mod journal;
mod json;
pub mod servers;
mod toml;
mod yaml;

/// The name of our entry in clients' files.
pub const NAME: &str = "workbench";

/// A client's file with the workbench in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The new text.
    pub text: String,
    /// The name of our entry; `None` if it is one that the user has made.
    pub entry: Option<String>,
    /// The servers that were taken out.
    pub taken: Vec<Taken>,
    /// The servers that cannot be taken out of this text, and stay.
    pub stuck: Vec<String>,
}

/// Puts our entry into a text, unless it is there, and takes these servers out; `None` stands for a
/// file that is not there. `ours` is the entry that an earlier setup has put there, with its name.
pub fn change(
    place: Place,
    text: Option<&str>,
    entry: &Value,
    (ours, servers): (Option<(&str, &Value)>, &[String]),
) -> Result<Changed, EditError> {
    let mut text = text.unwrap_or_default().to_owned();
    let there = place.entries(&text)?;
    // Somebody may have switched it off, or added to it: it stays as it is.
    let same = there.iter().find(|(_, value)| entry::is_same_launch(value, entry));
    let same = same.map(|(name, _)| name.clone());
    let earlier = ours.map(|(_, earlier)| earlier);
    let is_ours = |value: &Value| {
        entry::is_ours(value, entry) || earlier.is_some_and(|own| entry::is_ours(value, own))
    };
    let mut ours = ours.map(|(name, _)| name.to_owned());
    if let Some(old) = ours.as_deref().filter(|_| same.is_none())
        && there.iter().any(|(name, value)| name == old && is_ours(value))
    {
        text = place.take(&text, old)?.0;
    } else if same.is_none() {
        ours = None;
    }
    let name = if let Some(name) = same {
        // An entry that no journal knows is the user's own.
        ours.filter(|ours| *ours == name)
    } else {
        let name = ours.unwrap_or_else(|| free_name(&place.entries(&text).unwrap_or_default()));
        text = place.insert(&text, &name, entry)?;
        Some(name)
    };
    let mut changed = Changed { text, entry: name, taken: Vec::new(), stuck: Vec::new() };
    for server in servers {
        match place.take(&changed.text, server) {
            Ok((text, taken)) => {
                changed.text = text;
                changed.taken.push(taken);
            }
            Err(_) => changed.stuck.push(server.clone()),
        }
    }
    Ok(changed)
}

/// The text of a file in JSON with a member more in the object under a key at its top, which is made
/// where there is none.
pub(in crate::authoring) fn insert_json(
    text: &str,
    key: &str,
    name: &str,
    value: &Value,
) -> Option<String> {
    json::insert(text, key, name, value)
}

fn free_name(there: &[(String, Value)]) -> String {
    let is_free = |name: &String| there.iter().all(|(other, _)| other != name);
    let numbered = (2_u32..).map(|number| format!("{NAME}-{number}"));
    let mut names = std::iter::once(NAME.to_owned()).chain(numbered);
    names.find(is_free).unwrap_or_else(|| NAME.to_owned())
}

#[cfg(test)]
mod tests;
