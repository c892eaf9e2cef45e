//! Everything that is done differently on Unix and on Windows, under one set of names.
//!
//! Each platform has a file or folder of its own that defines all of these names; the code above
//! has no `cfg` of a platform (test `platforms_are_told_apart_in_one_crate`). Where a platform
//! lacks something, its side says so and does what comes closest.

mod allocator;
mod cell;
mod child;
mod memory;
mod pipe;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use crate::os::unix as native;
#[cfg(windows)]
use crate::os::windows as native;

pub use crate::os::native::{
    LocalListener, LocalStream, Orphans, Signals, Socket, Started, ask_to_reload, become_program,
    can_confine, can_others_read, can_strangers_read, check_owner, confine, connect_locally,
    has_terminal, hides_from_signals, is_open_to_others, is_program, is_same_file, keep_file_limit,
    kill, kill_group, lead_group, make_private_folder, private, processes, raise_file_limit,
    release_program_pages, remove_dead_socket, reuse_memory, seal_process, standard_sockets, start,
    strictest_permissions, terminate_group, user, variable_of, widen, widen_input, widen_output,
    without_waiting,
};

pub use crate::os::allocator::Allocator;
pub use crate::os::cell::Cell;
pub use crate::os::child::{Child, DEFAULT_PATH, Program};
pub use crate::os::memory::Memory;
pub use crate::os::pipe::Pipe;

/// An operating system, as far as programs keep files in different places on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// Linux, and every other Unix.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
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

/// A signal that [`Signals`] hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The program is to end; the name of the signal, for people.
    End(&'static str),
    /// The terminal was closed, or the program is to read its configuration again.
    Hangup,
}
