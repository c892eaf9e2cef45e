//! Deeds: whether a query, or the name of a tool, is about reading, writing or deleting something.
//!
//! A query and the tool for the opposite have nearly all of their words in common: `read_file` is as
//! much about files as `write_file`. So the verbs are compared by themselves.

use std::sync::LazyLock;

use foldhash::HashMap;

use crate::catalog::rank::text::{term, words};

/// A kind of deed: reading, writing or removing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// It is looked at, and stays as it is.
    Read,
    /// It is made, changed or sent.
    Write,
    /// It is taken away.
    Delete,
}

/// The verbs of each deed, and the words that ask for it.
const VERBS: [(Deed, &[&str]); 3] = [
    (
        Deed::Read,
        &[
            "check",
            "count",
            "describe",
            "display",
            "download",
            "explain",
            "fetch",
            "find",
            "get",
            "how",
            "inspect",
            "list",
            "load",
            "lookup",
            "monitor",
            "query",
            "read",
            "retrieve",
            "search",
            "show",
            "summarize",
            "track",
            "view",
            "watch",
            "what",
            "when",
            "where",
            "which",
            "who",
        ],
    ),
    (
        Deed::Write,
        &[
            "add", "append", "change", "create", "edit", "generate", "insert", "make", "modify",
            "move", "new", "post", "put", "rename", "save", "send", "set", "tell", "update",
            "upload", "write",
        ],
    ),
    (
        Deed::Delete,
        &[
            "cancel",
            "clear",
            "delete",
            "destroy",
            "discard",
            "drop",
            "erase",
            "purge",
            "remove",
            "trash",
            "uninstall",
            "wipe",
        ],
    ),
];

/// The deed of each verb, as it is written and by its term.
static KNOWN: LazyLock<HashMap<String, Deed>> = LazyLock::new(|| {
    let mut known = HashMap::default();
    for (deed, verbs) in VERBS {
        for verb in verbs {
            known.insert((*verb).to_owned(), deed);
            known.extend(term(verb).map(|term| (term.into_owned(), deed)));
        }
    }
    known
});

impl Deed {
    /// Returns the deed of the first verb in a tool's name, if there is any.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        // Names have verbs as they stand in the list, and an index has many names.
        words(name).find_map(|word| KNOWN.get(&*word).copied())
    }
}

/// The deeds that a text speaks of, and how many words it has that say something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Deeds {
    reads: bool,
    writes: bool,
    deletes: bool,
    words: usize,
}

impl Deeds {
    /// Reads a text.
    pub(super) fn of_text(text: &str) -> Self {
        let mut deeds = Self::default();
        for word in words(text) {
            let Some(term) = term(&word) else { continue };
            deeds.words += 1;
            match KNOWN.get(&*term) {
                Some(Deed::Read) => deeds.reads = true,
                Some(Deed::Write) => deeds.writes = true,
                Some(Deed::Delete) => deeds.deletes = true,
                None => {}
            }
        }
        deeds
    }

    /// Returns the deeds of a text that is short enough to want one thing, and none of a longer one.
    pub(super) fn if_one_step(self, most: usize) -> Self {
        if self.words <= most { self } else { Self::default() }
    }

    /// Tells whether the text speaks of a deed.
    pub(super) fn has(self, deed: Deed) -> bool {
        match deed {
            Deed::Read => self.reads,
            Deed::Write => self.writes,
            Deed::Delete => self.deletes,
        }
    }

    /// Tells whether the text speaks of deeds, and of this one not.
    pub(super) fn rule_out(self, deed: Deed) -> bool {
        (self.reads || self.writes || self.deletes) && !self.has(deed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_deed_of_its_first_verb() {
        for (name, deed) in [
            ("read_file", Some(Deed::Read)),
            ("createOrDeleteIssue", Some(Deed::Write)),
            ("channels-delete", Some(Deed::Delete)),
            ("git_reset", None),
            ("", None),
        ] {
            assert_eq!(Deed::of_name(name), deed, "{name}");
        }
    }

    #[test]
    fn a_text_rules_out_the_deeds_that_it_does_not_speak_of() {
        let deeds = Deeds::of_text("writing a file");
        assert!(deeds.rule_out(Deed::Read) && deeds.rule_out(Deed::Delete));
        assert!(!deeds.rule_out(Deed::Write));
        assert!(!Deeds::of_text("the weather in Graz").rule_out(Deed::Delete), "it has no verb");
        let both = Deeds::of_text("find the note and remove it");
        assert!(!both.rule_out(Deed::Read) && !both.rule_out(Deed::Delete));
    }

    #[test]
    fn a_long_text_rules_out_nothing() {
        let deeds = Deeds::of_text("write a quick start guide for a new colleague");
        assert!(deeds.if_one_step(7).rule_out(Deed::Read));
        assert!(!deeds.if_one_step(3).rule_out(Deed::Read));
    }
}
