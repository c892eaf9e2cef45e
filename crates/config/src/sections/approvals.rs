//! The `approvals` section: calls that are approved outside the client.

use crate::sections::ranges;
use crate::syntax::checks::duration_from_millis;
use crate::syntax::document::Node;
use crate::syntax::reader::{ConfigReader, Located, did_you_mean, quoted_list};
use crate::syntax::section::section;
use mcp_workbench_settings::{ApprovalConfig, ApprovalKey, FirstAsked, defaults};

section! {
    /// Approval of calls outside the client, in a queue.
    #[schemars(rename = "Approvals")]
    pub(crate) struct RawApprovals in "`approvals`" {
        /// Who confirms a call first: the user of the `client`, and the queue only if the client
        /// can't ask, or the `operator`, so that the client isn't asked.
        #[schemars(extend("enum" = ["client", "operator", null], "default" = "client"))]
        "askFirst" as pub(crate) ask_first: Located<String> => read_first,

        /// How long a call waits in the queue, in milliseconds; then it is denied. A call ends
        /// earlier if its client doesn't wait that long.
        #[schemars(extend("default" = defaults::APPROVAL_TIMEOUT_MS))]
        "timeoutMs" as pub(crate) timeout_ms: Located<u64> [ranges::APPROVAL_TIMEOUT_MS],

        /// Shows a desktop notification when a call waits, if the system has a program for that.
        #[schemars(extend("default" = true))]
        "notify" as pub(crate) notify: Located<bool>,

        /// Public part of the approval key, which `mcp-workbench approvals key` creates. Without
        /// one, only operators of an HTTP workbench can approve calls. Read only at the start.
        "key" as pub(crate) key: Located<String>,
    }
}

impl RawApprovals {
    pub(crate) fn checked(self, reader: &mut ConfigReader<'_>) -> ApprovalConfig {
        let Self { ask_first, timeout_ms, notify, key } = self;
        let default = ApprovalConfig::default();
        let word = ask_first.map(|word| word.value);
        let first = FirstAsked::ALL.into_iter().find(|who| Some(who.as_str()) == word.as_deref());
        let key = key.and_then(|key| {
            let read = ApprovalKey::parse(&key.value);
            if read.is_none() {
                let hint = "create one with `mcp-workbench approvals key`";
                reader.report_error(&key.location, "invalid approval key", Some(hint.to_owned()));
            }
            read
        });
        ApprovalConfig {
            first: first.unwrap_or_default(),
            timeout: duration_from_millis(timeout_ms).unwrap_or(default.timeout),
            notifies: notify.map_or(default.notifies, |flag| flag.value),
            key,
        }
    }
}

fn read_first(node: &Node<'_>, reader: &mut ConfigReader<'_>) -> Option<Located<String>> {
    let word = reader.read_string(node)?;
    let words = FirstAsked::ALL.map(FirstAsked::as_str);
    if !words.contains(&word.value.as_str()) {
        let message = format!("expected {}, found `{}`", quoted_list(&words, "or"), word.value);
        reader.report_error(&word.location, message, did_you_mean(&word.value, &words));
    }
    Some(word)
}
