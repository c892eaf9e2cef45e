//! The work of `list`, `search` and `call` at a gateway: in this process, or in a running workbench
//! of the user that has loaded the same configuration.
//!
//! Both run the same code and return the same report, so the output doesn't depend on where it ran.
//! [`command`] defines a command, [`runner`] decides where to run it, [`client`] talks to a running
//! workbench, and [`service`] is the other end. [`protocol`] describes their messages.

mod call;
mod call_error;
mod client;
mod command;
mod events;
mod list;
mod protocol;
mod runner;
mod search;
mod service;
mod user;

pub(crate) use crate::cli::tool_commands::call::{CallCommand, CallReport, GivenArguments};
pub(crate) use crate::cli::tool_commands::list::{ListCommand, ListReport, ListedTool};
pub(crate) use crate::cli::tool_commands::runner::{RunnerArgs, run};
pub(crate) use crate::cli::tool_commands::search::{SearchCommand, SearchHit, SearchResult};
pub(crate) use crate::cli::tool_commands::service::command_service;
pub(crate) use crate::cli::tool_commands::user::can_ask;
