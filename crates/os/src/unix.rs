//! The Unix implementation.

mod cell;
mod files;
mod local;
mod orphans;
mod pinned;
mod process_handle;
mod processes;
mod signals;
mod streams;

pub use crate::unix::cell::{check_sandbox_support, enter_sandbox, exec, supports_signal_scope};
pub use crate::unix::files::{
    can_others_read, check_executable, check_owner, check_private_dir, is_private_key_exposed,
    is_same_file, is_writable_by_others, make_private_folder, set_private_mode,
    strictest_permissions,
};
pub(crate) use crate::unix::files::{is_fifo, set_blocking, set_guarded, special_kind};
pub use crate::unix::local::{
    LocalListener, LocalStream, connect_locally, listening_process, remove_dead_socket,
};
pub use crate::unix::orphans::{
    ChildGuard, OrphanReaper, kill, kill_if, list_processes, spawn_tracked, start_time, variable_of,
};
pub(crate) use crate::unix::pinned::identity_of;
pub use crate::unix::process_handle::ProcessHandle;
#[cfg(target_os = "linux")]
pub(crate) use crate::unix::processes::die_with_parent;
pub use crate::unix::processes::{
    disable_process_dumping, drop_clean_program_pages, hide_inherited_files, kill_group,
    lead_group, lead_session, raise_file_limit, restore_file_limit, terminate_group,
    unblock_child_exits, user,
};
pub use crate::unix::signals::{Signals, has_terminal};
pub use crate::unix::streams::{
    Socket, output_closed, standard_sockets, widen, widen_input, widen_output,
};
