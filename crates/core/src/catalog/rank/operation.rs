//! The operation that a query or a tool's name is about: reading, writing or deleting.
//!
//! A query shares nearly all its words with the tool for the opposite: `read_file` is as much about
//! files as `write_file`. Verbs are therefore compared separately, and so are words with an opposite,
//! such as `mute` and `unmute`.

use std::borrow::Cow;
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
            "assign", "attach", "draft", "forward", "import", "invite", "mark", "merge", "notify",
            "pay", "publish", "register", "reply", "share", "submit", "add", "append", "change",
            "create", "edit", "generate", "insert", "make", "modify", "move", "new", "post", "put",
            "rename", "save", "send", "set", "tell", "update", "upload", "write",
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

/// Words for opposite actions. A tool for one of them is wrong for the other.
const OPPOSITES: [(&str, &str); 52] = [
    ("accept", "decline"),
    ("accept", "reject"),
    ("activate", "deactivate"),
    ("add", "remove"),
    ("append", "prepend"),
    ("approve", "reject"),
    ("archive", "unarchive"),
    ("assign", "unassign"),
    ("attach", "detach"),
    ("backup", "restore"),
    ("ban", "unban"),
    ("block", "unblock"),
    ("buy", "sell"),
    ("compress", "decompress"),
    ("connect", "disconnect"),
    ("create", "delete"),
    ("decode", "encode"),
    ("decrease", "increase"),
    ("decrement", "increment"),
    ("decr", "incr"),
    ("decrypt", "encrypt"),
    ("deposit", "withdraw"),
    ("disable", "enable"),
    ("download", "upload"),
    ("export", "import"),
    ("follow", "unfollow"),
    ("freeze", "unfreeze"),
    ("grant", "revoke"),
    ("hide", "show"),
    ("inbound", "outbound"),
    ("install", "uninstall"),
    ("join", "leave"),
    ("like", "unlike"),
    ("link", "unlink"),
    ("load", "save"),
    ("lock", "unlock"),
    ("login", "logout"),
    ("max", "min"),
    ("merge", "split"),
    ("mount", "unmount"),
    ("mute", "unmute"),
    ("close", "open"),
    ("pause", "resume"),
    ("pin", "unpin"),
    ("publish", "unpublish"),
    ("pull", "push"),
    ("read", "write"),
    ("receive", "send"),
    ("redo", "undo"),
    ("star", "unstar"),
    ("start", "stop"),
    ("subscribe", "unsubscribe"),
];

/// The sides of [`OPPOSITES`] that a text has words of, each a bit per pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Directions {
    one: u64,
    other: u64,
}

static SIDES: LazyLock<HashMap<String, Directions>> = LazyLock::new(|| {
    let mut sides: HashMap<String, Directions> = HashMap::default();
    let mut add = |word: &str, one: u64, other: u64| {
        for word in std::iter::once(Cow::Borrowed(word)).chain(stem(word)) {
            let known = sides.entry(word.into_owned()).or_default();
            known.one |= one;
            known.other |= other;
        }
    };
    for (pair, (one, other)) in OPPOSITES.into_iter().enumerate() {
        add(one, 1 << pair, 0);
        add(other, 0, 1 << pair);
    }
    sides
});

impl Directions {
    /// Returns the directions of a tool's name.
    pub(super) fn of_name(name: &str) -> Self {
        words(name).filter_map(|word| SIDES.get(&*word)).fold(Self::default(), Self::with)
    }

    /// Returns the directions of a text, or none if it has more than `most` words without stop
    /// words, because it may ask for several things.
    pub(super) fn of_text(text: &str, most: usize) -> Self {
        let (mut all, mut count) = (Self::default(), 0);
        for word in words(text) {
            let Some(term) = stem(&word) else { continue };
            count += 1;
            all = SIDES.get(&*term).map_or(all, |sides| all.with(sides));
        }
        if count <= most { all } else { Self::default() }
    }

    fn with(self, more: &Self) -> Self {
        Self { one: self.one | more.one, other: self.other | more.other }
    }

    /// Returns `true` if a name has only the opposite of a word of the text.
    pub(super) fn rule_out(self, name: Self) -> bool {
        let is_only = |asked: u64, also: u64, named: u64, also_named: u64| {
            asked & !also & named & !also_named != 0
        };
        is_only(self.one, self.other, name.other, name.one)
            || is_only(self.other, self.one, name.one, name.other)
    }
}

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

    #[test]
    fn opposite_of_a_word_rules_out_a_name() {
        let is_ruled_out =
            |text, name| Directions::of_text(text, 12).rule_out(Directions::of_name(name));
        for (text, name) in [
            ("mute the channel", "unmute_channel"),
            ("unmuting a chat", "mute_chat"),
            ("import contacts", "exportContacts"),
            ("send a message", "receive_messages"),
            ("create a label", "delete_label"),
        ] {
            assert!(is_ruled_out(text, name), "{text}, {name}");
        }
        for (text, name) in [
            ("mute the channel", "mute_channel"),
            ("mute or unmute a channel", "mute_channel"),
            ("import contacts", "import_export_contacts"),
            ("list channels", "mute_channel"),
        ] {
            assert!(!is_ruled_out(text, name), "{text}, {name}");
        }
        let long = "export the report of each week and then mute it for them all";
        assert_eq!(Directions::of_text(long, 3), Directions::default());
    }

    #[test]
    fn each_opposite_is_a_word() {
        assert!(OPPOSITES.len() <= 64, "a bit each");
        for word in OPPOSITES.into_iter().flat_map(|(one, other)| [one, other]) {
            assert!(SIDES.contains_key(word), "{word}");
        }
    }
}
