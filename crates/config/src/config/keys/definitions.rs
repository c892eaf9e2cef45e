//! The fate of definitions that are not as the lock has them.

use crate::config::syntax::reader::{Located, Reader, did_you_mean, listed};
use crate::settings::Definitions;

/// Checks the word; none if it is none of ours, which is an error.
pub(crate) fn check(word: &Located<String>, reader: &mut Reader<'_>) -> Option<Definitions> {
    let known = Definitions::WORDS.iter().find(|(name, _)| *name == word.value);
    if known.is_none() {
        let names = Definitions::WORDS.map(|(name, _)| name);
        let message = format!("expected {}, found `{}`", listed(&names, "or"), word.value);
        reader.error(&word.spot, message, did_you_mean(&word.value, &names));
    }
    known.map(|(_, definitions)| *definitions)
}
