//! The `notes` server: notes in memory, lost on exit.

use std::collections::BTreeMap;

use parking_lot::{Mutex, MutexGuard};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::builtin::{BuiltinResult, Toolset, answer, tool};

const MAX_NOTES: usize = 1000;
/// In bytes.
const MAX_TITLE: usize = 200;
/// In bytes.
const MAX_TEXT: usize = 100_000;

#[derive(Default)]
pub(super) struct Notes {
    notes: Mutex<BTreeMap<String, String>>,
}

impl Toolset for Notes {
    const NAME: &'static str = "workbench-notes";
    const TITLE: &'static str = "Notes";
    const INSTRUCTIONS: &'static str = "Keeps short notes by title while you work. Notes are in \
        memory only and are lost when the server stops.";

    fn tools() -> Vec<Tool> {
        let reading = |title: &str| ToolAnnotations::with_title(title).read_only(true);
        vec![
            tool::<NewNote, Titles>(
                "add_note",
                "Keeps a new note; fails if the title exists",
                ToolAnnotations::with_title("Add note")
                    .read_only(false)
                    .destructive(false)
                    .idempotent(false),
            ),
            tool::<NoArguments, Titles>(
                "list_notes",
                "Lists the titles of all notes",
                reading("List notes"),
            ),
            tool::<Title, Note>("read_note", "Returns the text of one note", reading("Read note")),
            tool::<Query, Matches>(
                "search_notes",
                "Finds notes whose title or text contains a phrase, ignoring case",
                reading("Search notes"),
            ),
            tool::<Title, Titles>(
                "delete_note",
                "Deletes one note for good",
                ToolAnnotations::with_title("Delete note")
                    .read_only(false)
                    .destructive(true)
                    .idempotent(false),
            ),
        ]
    }

    fn call(&self, tool: &str, arguments: JsonObject) -> Option<BuiltinResult> {
        Some(match tool {
            "add_note" => answer(arguments, |note| self.add(note)),
            "list_notes" => answer(arguments, |NoArguments {}| Ok(Titles::of(&self.lock()))),
            "read_note" => answer(arguments, |title| self.read(title)),
            "search_notes" => answer(arguments, |query| Ok(self.search(&query))),
            "delete_note" => answer(arguments, |title| self.delete(&title)),
            _ => return None,
        })
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Nothing")]
struct NoArguments {}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NewNote {
    /// A short, unique title.
    #[schemars(length(min = 1, max = 200))]
    title: String,
    /// The note's text.
    text: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Title {
    /// The exact title of the note.
    title: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Query {
    /// The phrase to find.
    query: String,
}

#[derive(Serialize, JsonSchema)]
struct Note {
    title: String,
    text: String,
}

#[derive(Serialize, JsonSchema)]
struct Titles {
    /// The titles of all notes, in alphabetical order.
    titles: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct Matches {
    /// The matching notes, in alphabetical order.
    matches: Vec<Match>,
}

#[derive(Serialize, JsonSchema)]
struct Match {
    title: String,
    /// The first line that contains the phrase, unless only the title does.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<String>,
}

impl Titles {
    fn of(notes: &BTreeMap<String, String>) -> Self {
        Self { titles: notes.keys().cloned().collect() }
    }
}

impl Notes {
    fn add(&self, NewNote { title, text }: NewNote) -> Result<Titles, String> {
        if title.is_empty() || title.len() > MAX_TITLE {
            return Err(format!("`title` must have 1 to {MAX_TITLE} bytes"));
        }
        if text.len() > MAX_TEXT {
            return Err(format!("`text` must have at most {MAX_TEXT} bytes"));
        }
        let mut notes = self.lock();
        if notes.contains_key(&title) {
            return Err(format!("note `{title}` already exists"));
        }
        if notes.len() == MAX_NOTES {
            return Err(format!("limit of {MAX_NOTES} notes reached: delete one"));
        }
        notes.insert(title, text);
        Ok(Titles::of(&notes))
    }

    fn read(&self, Title { title }: Title) -> Result<Note, String> {
        let text = self.lock().get(&title).cloned();
        let text = text.ok_or_else(|| unknown(&title))?;
        Ok(Note { title, text })
    }

    fn search(&self, Query { query }: &Query) -> Matches {
        let query = query.to_lowercase();
        let contains = |text: &str| text.to_lowercase().contains(&query);
        let notes = self.lock();
        let matches = notes.iter().filter_map(|(title, text)| {
            let line = text.lines().find(|line| contains(line));
            (line.is_some() || contains(title))
                .then(|| Match { title: title.clone(), line: line.map(str::to_owned) })
        });
        Matches { matches: matches.collect() }
    }

    fn delete(&self, Title { title }: &Title) -> Result<Titles, String> {
        let mut notes = self.lock();
        notes.remove(title).ok_or_else(|| unknown(title))?;
        Ok(Titles::of(&notes))
    }

    /// Ignores poisoning: every change is a single insert or remove, so a panic can't leave the map
    /// inconsistent.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.notes.lock()
    }
}

fn unknown(title: &str) -> String {
    format!("no note `{title}`; `list_notes` returns all titles")
}

#[cfg(test)]
mod tests;
