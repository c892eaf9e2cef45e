//! Unix.

mod cell;
mod files;
mod local;
mod orphans;
mod processes;
mod signals;
mod streams;

pub use crate::os::unix::cell::{become_program, can_confine, confine, hides_from_signals};
pub use crate::os::unix::files::{
    can_others_read, can_strangers_read, check_owner, is_open_to_others, is_program, is_same_file,
    make_private_folder, private, strictest_permissions, without_waiting,
};
pub use crate::os::unix::local::{LocalListener, LocalStream, connect_locally, remove_dead_socket};
pub use crate::os::unix::orphans::{Orphans, Started, kill, processes, start, variable_of};
#[cfg(target_os = "linux")]
pub(crate) use crate::os::unix::processes::file_limit_before;
pub use crate::os::unix::processes::{
    ask_to_reload, keep_file_limit, kill_group, lead_group, raise_file_limit,
    release_program_pages, reuse_memory, seal_process, terminate_group, user,
};
pub use crate::os::unix::signals::{Signals, has_terminal};
pub use crate::os::unix::streams::{Socket, standard_sockets, widen, widen_input, widen_output};
