//! Servers and running workbenches, as commands use them.

pub(crate) mod approval_key;
pub(crate) mod background_service;
pub(crate) mod cached_listings;
pub(crate) mod login_summary;
pub(crate) mod package_identity;
pub(crate) mod running_workbenches;
pub(crate) mod server_names;
pub(crate) mod server_phrase;
pub(crate) mod startup;
pub(crate) mod stdio_client;
pub(crate) mod system_keyring;
pub(crate) mod tool_target;
pub(crate) mod trial_run;
pub(crate) mod value_sources;
pub(crate) mod waiting_calls;
