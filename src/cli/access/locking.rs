//! Records the definitions of servers in `workbench.lock`.

pub(crate) mod accept;
pub(crate) mod launch_record;
pub(crate) mod lock_writer;
pub(crate) mod package_record;
pub(crate) mod recording;
pub(crate) mod remarks;
pub(crate) mod server_names;
