//! The operation that a query or a tool's name is about: reading, writing or deleting.
//!
//! A query shares nearly all its words with the tool for the opposite: `read_file` is as much about
//! files as `write_file`. Verbs are therefore compared separately.

use std::sync::LazyLock;

use foldhash::HashMap;

use crate::catalog::rank::tokenizer::{stem, words};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Read,
    Write,
    Delete,
}

/// The verbs of each operation, and question words that ask for it.
const VERBS: [(Operation, &[&str]); 3] = [
    (
        Operation::Read,
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
        Operation::Write,
        &[
            "add", "append", "change", "create", "edit", "generate", "insert", "make", "modify",
            "move", "new", "post", "put", "rename", "save", "send", "set", "tell", "update",
            "upload", "write",
        ],
    ),
    (
        Operation::Delete,
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

static KNOWN: LazyLock<HashMap<String, Operation>> = LazyLock::new(|| {
    let mut known = HashMap::default();
    for (operation, verbs) in VERBS {
        for verb in verbs {
            known.insert((*verb).to_owned(), operation);
            known.extend(stem(verb).map(|term| (term.into_owned(), operation)));
        }
    }
    known
});

impl Operation {
    /// Returns the operation of the first known verb in a tool's name.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        // An index has many names, and their verbs are rarely inflected, so save the stemming.
        words(name).find_map(|word| KNOWN.get(&*word).copied())
    }
}

/// The operations that a text mentions, and its number of words without stop words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OperationSet {
    reads: bool,
    writes: bool,
    deletes: bool,
    words: usize,
}

impl OperationSet {
    pub(super) fn of_text(text: &str) -> Self {
        let mut operations = Self::default();
        for word in words(text) {
            let Some(term) = stem(&word) else { continue };
            operations.words += 1;
            match KNOWN.get(&*term) {
                Some(Operation::Read) => operations.reads = true,
                Some(Operation::Write) => operations.writes = true,
                Some(Operation::Delete) => operations.deletes = true,
                None => {}
            }
        }
        operations
    }

    /// Returns an empty set for a text of more than `most` words, which may ask for several things.
    pub(super) fn if_one_step(self, most: usize) -> Self {
        if self.words <= most { self } else { Self::default() }
    }

    pub(super) fn has(self, operation: Operation) -> bool {
        match operation {
            Operation::Read => self.reads,
            Operation::Write => self.writes,
            Operation::Delete => self.deletes,
        }
    }

    /// Returns `true` if the text mentions operations, but not this one.
    pub(super) fn rule_out(self, operation: Operation) -> bool {
        (self.reads || self.writes || self.deletes) && !self.has(operation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_has_the_operation_of_its_first_verb() {
        for (name, operation) in [
            ("read_file", Some(Operation::Read)),
            ("createOrDeleteIssue", Some(Operation::Write)),
            ("channels-delete", Some(Operation::Delete)),
            ("git_reset", None),
            ("", None),
        ] {
            assert_eq!(Operation::of_name(name), operation, "{name}");
        }
    }

    #[test]
    fn excludes_operations_that_the_text_does_not_name() {
        let operations = OperationSet::of_text("writing a file");
        assert!(operations.rule_out(Operation::Read) && operations.rule_out(Operation::Delete));
        assert!(!operations.rule_out(Operation::Write));
        assert!(
            !OperationSet::of_text("the weather in Graz").rule_out(Operation::Delete),
            "it has no verb"
        );
        let both = OperationSet::of_text("find the note and remove it");
        assert!(!both.rule_out(Operation::Read) && !both.rule_out(Operation::Delete));
    }

    #[test]
    fn a_long_text_rules_out_nothing() {
        let operations = OperationSet::of_text("write a quick start guide for a new colleague");
        assert!(operations.if_one_step(7).rule_out(Operation::Read));
        assert!(!operations.if_one_step(3).rule_out(Operation::Read));
    }
}
