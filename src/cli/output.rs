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

pub(crate) use error::CommandError;
pub(crate) use escape::quote_for_shell;
pub(crate) use print::escape_to_line;
pub(crate) use redaction::{redact, redact_config, register_secrets};
pub(crate) use spinner::Spinner;
pub(crate) use table::{Align, Table};
pub(crate) use tool_result::RenderedResult;
pub(crate) use troubleshooting::Symptom;
pub(crate) use unified_diff::unified_diff;
pub(crate) use units::{
    ContextSize, age, format_age, format_count, format_time, mebibytes, number, system_time,
};
pub(crate) use wording::{did_you_mean, quoted};
