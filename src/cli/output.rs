//! Printing: text, tables, JSON, errors and the log.

pub(crate) mod error;
pub(crate) mod escape;
pub(crate) mod logging;
pub(crate) mod print;
pub(crate) mod redaction;
pub(crate) mod spinner;
pub(crate) mod table;
pub(crate) mod tool_result;
pub(crate) mod troubleshooting;
pub(crate) mod unified_diff;
pub(crate) mod units;
pub(crate) mod wording;
