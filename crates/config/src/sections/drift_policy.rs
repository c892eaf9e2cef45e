//! The drift policy: the action for tool definitions that differ from the lockfile.

use crate::syntax::reader::{ConfigReader, Located, did_you_mean, quoted_list};
use mcp_workbench_settings::DriftPolicy;

pub(crate) fn parse_drift_policy(
    word: &Located<String>,
    reader: &mut ConfigReader<'_>,
) -> Option<DriftPolicy> {
    let known = DriftPolicy::WORDS.iter().find(|(name, _)| *name == word.value);
    if known.is_none() {
        let names = DriftPolicy::WORDS.map(|(name, _)| name);
        let message = format!("expected {}, found `{}`", quoted_list(&names, "or"), word.value);
        reader.report_error(&word.location, message, did_you_mean(&word.value, &names));
    }
    known.map(|(_, definitions)| *definitions)
}
