//! The operating system behind one API: files, processes, signals, sandboxing and pipes.
//!
//! `unix` and `windows` each define every name that is re-exported here, so code above this crate
//! needs no platform `cfg` (test `only_os_crate_distinguishes_platforms`). A platform that lacks a
//! feature has a stub that documents its fallback.

mod child;
mod files;
mod memory;
mod pipe;
mod sandbox;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use crate::unix as native;
#[cfg(windows)]
use crate::windows as native;

pub use crate::native::{
    ChildGuard, LocalListener, LocalStream, OrphanReaper, ProcessHandle, Signals, Socket,
    can_others_read, check_executable, check_owner, check_private_dir, check_sandbox_support,
    connect_locally, disable_process_dumping, drop_clean_program_pages, enter_sandbox, exec,
    has_terminal, hide_inherited_files, is_private_key_exposed, is_same_file,
    is_writable_by_others, kill, kill_group, kill_if, lead_group, lead_session, list_processes,
    listening_process, make_private_folder, output_closed, raise_file_limit, remove_dead_socket,
    restore_file_limit, set_private_mode, spawn_tracked, standard_sockets, start_time,
    strictest_permissions, supports_signal_scope, terminate_group, unblock_child_exits, user,
    variable_of, widen, widen_input, widen_output,
};

pub use crate::child::{Child, CommandSpec, DEFAULT_PATH};
pub use crate::files::{
    MAX_INPUT_BYTES, OpenMode, check_replaceable, open_input, open_log, open_own, read_input,
    read_input_text, read_own, write_output,
};
pub use crate::memory::ProcessMemory;
pub use crate::pipe::Pipe;
pub use crate::sandbox::{PinnedPath, SandboxRules};

/// A platform, as far as it decides the locations of other programs' files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// Linux and every other Unix except macOS.
    Linux,
    MacOs,
    Windows,
}

impl Platform {
    /// The platform that this program was built for.
    pub const THIS: Self = if cfg!(windows) {
        Self::Windows
    } else if cfg!(target_os = "macos") {
        Self::MacOs
    } else {
        Self::Linux
    };
}

/// A signal received through [`Signals`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Shut down. Holds the signal's name for log messages.
    End(&'static str),
    /// The terminal was closed, or the configuration should be reloaded.
    Hangup,
}
