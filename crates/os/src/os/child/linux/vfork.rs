//! Creates a process with `clone` and runs the setup until `execve`.
//!
//! Until then the child shares the parent's memory on its own stack, and the thread that spawned it
//! is suspended. The child therefore only makes system calls: it must not allocate, take locks or
//! run signal handlers of the parent.
#![expect(unsafe_code, reason = "there is no safe `clone`")]

use std::cell::Cell;
use std::convert::Infallible;
use std::ffi::{CStr, CString, NulError, OsStr};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use libc::{c_char, c_int, c_uint, c_void};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, chdir, getpid, getppid,
    set_parent_process_death_signal, setpgid, setrlimit, waitpid,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use crate::os::child::{CommandSpec, DEFAULT_PATH};
use crate::os::native::file_limit_before;

/// The child's stack, in bytes: far more than its few system calls need.
const STACK: usize = 64 * 1024;

/// Runs scripts without a `#!` line.
const SHELL: &CStr = c"/bin/sh";

/// An element of a null-terminated `argv` or `envp`.
type Word = Cell<*const c_char>;

/// Everything that the child needs, prepared by the parent.
struct Plan<'a> {
    /// The candidate executables, in the order of `PATH`.
    files: &'a [CString],
    /// The shell, the program name and its arguments.
    words: &'a [Word],
    variables: &'a [Word],
    folder: &'a CStr,
    /// The child's ends of stdin, stdout and stderr. None of them has number 0, 1 or 2: a Rust
    /// program has those open from its start.
    streams: [&'a OwnedFd; 3],
    parent: Pid,
    file_limit: Option<Rlimit>,
    /// Why `execve` or an earlier step failed.
    error: Cell<Option<Errno>>,
}

/// Creates the process and returns once it has executed the program.
pub(super) fn spawn(program: &CommandSpec, streams: [&OwnedFd; 3]) -> io::Result<Pid> {
    let files = files(program)?;
    let args = [&program.name].into_iter().chain(&program.args);
    let args = args.map(|arg| CString::new(arg.as_bytes())).collect::<Result<Vec<_>, _>>()?;
    let variables = program.env.iter();
    let variables = variables
        .map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()));
    let variables = variables.collect::<Result<Vec<_>, _>>()?;
    let folder = CString::new(program.folder.as_os_str().as_bytes())?;
    let plan = Plan {
        files: &files,
        words: &words([SHELL].into_iter().chain(args.iter().map(CString::as_c_str))),
        variables: &words(variables.iter().map(CString::as_c_str)),
        folder: &folder,
        streams,
        parent: getpid(),
        file_limit: file_limit_before(),
        error: Cell::new(None),
    };
    let process = Pid::from_raw(plan.clone_child()?).ok_or(io::ErrorKind::Other)?;
    let Some(error) = plan.error.get() else { return Ok(process) };
    // The child has exited, and no other code knows its id.
    let _ = retry_on_intr(|| waitpid(Some(process), WaitOptions::empty()));
    Err(error.into())
}

fn files(program: &CommandSpec) -> Result<Vec<CString>, NulError> {
    let name = program.name.as_os_str();
    if name.is_empty() {
        return Ok(Vec::new());
    }
    if name.as_bytes().contains(&b'/') {
        return Ok(vec![CString::new(name.as_bytes())?]);
    }
    let path =
        program.env.get(OsStr::new("PATH")).map_or(DEFAULT_PATH.as_ref(), |path| path.as_os_str());
    let folders = path.as_bytes().split(|byte| *byte == b':').map(OsStr::from_bytes);
    // An empty entry of `PATH` is the working directory.
    let files = folders.map(|folder| Path::new(folder).join(name));
    files.map(|file| CString::new(file.into_os_string().as_bytes())).collect()
}

fn words<'a>(texts: impl Iterator<Item = &'a CStr>) -> Vec<Word> {
    texts.map(CStr::as_ptr).chain([ptr::null()]).map(Cell::new).collect()
}

impl Plan<'_> {
    /// Clones the child and returns its id once it has called `execve` or failed.
    fn clone_child(&self) -> io::Result<c_int> {
        let mut stack = Vec::<u128>::with_capacity(STACK / size_of::<u128>());
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let mut every = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: the sets are written before they are read. The child runs `child_main` on a stack
        // that nothing else uses, with all signals blocked so that no handler of the parent runs
        // there. The plan outlives the child's use of it: with `CLONE_VFORK`, this thread resumes
        // only after the child has called `execve` or exited.
        unsafe {
            libc::sigfillset(every.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, every.as_ptr(), before.as_mut_ptr());
            let top = stack.as_mut_ptr().add(stack.capacity());
            let plan = ptr::from_ref(self).cast_mut();
            let process = libc::clone(child_main, top.cast(), flags, plan.cast());
            let process = if process < 0 { Err(io::Error::last_os_error()) } else { Ok(process) };
            // Tokio learns of child exits through SIGCHLD. Leave it unblocked even if this process
            // inherited it blocked.
            libc::sigdelset(before.as_mut_ptr(), libc::SIGCHLD);
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
            process
        }
    }

    fn exec_in_child(&self) -> Result<Infallible, Errno> {
        forget_handlers();
        setpgid(None, None)?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the signal was set.
        if getppid() != Some(self.parent) {
            return Err(Errno::SRCH);
        }
        if let Some(limit) = self.file_limit {
            setrlimit(Resource::Nofile, limit)?;
        }
        let [input, output, errors] = self.streams;
        dup2_stdin(input)?;
        dup2_stdout(output)?;
        dup2_stderr(errors)?;
        // Includes descriptors that this program inherited or a C library opened. Kernels without
        // this call leave it to `hide_inherited_files`.
        // SAFETY: the call changes only flags, in the child's own table of descriptors.
        unsafe { libc::syscall(libc::SYS_close_range, 3, c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
        chdir(self.folder)?;
        let [_, program @ ..] = self.words else { return Err(Errno::INVAL) };
        let mut error = Errno::NOENT;
        for file in self.files {
            match self.execve(file, program) {
                Errno::NOENT | Errno::NOTDIR | Errno::STALE | Errno::NODEV | Errno::TIMEDOUT => {}
                // Report a permission error only if no other folder has the program.
                Errno::ACCESS => error = Errno::ACCESS,
                Errno::NOEXEC => return Err(self.run_by_shell(file)),
                other => return Err(other),
            }
        }
        Err(error)
    }

    /// Runs a script without a `#!` line in the shell. Returns only on failure.
    fn run_by_shell(&self, file: &CStr) -> Errno {
        let [_, name, ..] = self.words else { return Errno::INVAL };
        name.set(file.as_ptr());
        self.execve(SHELL, self.words)
    }

    fn execve(&self, file: &CStr, words: &[Word]) -> Errno {
        // SAFETY: both lists are null-terminated, and all strings outlive the call.
        unsafe {
            libc::execve(file.as_ptr(), words.as_ptr().cast(), self.variables.as_ptr().cast())
        };
        Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)
    }
}

/// The child's entry point. The child exits with the returned code.
extern "C" fn child_main(plan: *mut c_void) -> c_int {
    // SAFETY: `Plan::clone_child` passes a plan and doesn't touch it again until the child is done.
    let plan = unsafe { &*plan.cast::<Plan<'_>>() };
    let Err(error) = plan.exec_in_child();
    plan.error.set(Some(error));
    127
}

/// Resets signal handlers and unblocks all signals. No handler of the parent may run in the child,
/// and SIGPIPE, which every Rust program ignores, gets its default action back.
fn forget_handlers() {
    // SAFETY: a zeroed action is valid (`SIG_DFL`), and all pointers are to local values.
    unsafe {
        let default = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        for signal in 1..=libc::SIGRTMAX() {
            let mut action = default;
            // The C library rejects the signal numbers that it reserves for itself.
            if libc::sigaction(signal, ptr::null(), &raw mut action) != 0 {
                continue;
            }
            match action.sa_sigaction {
                libc::SIG_DFL => {}
                libc::SIG_IGN if signal != libc::SIGPIPE => {}
                _ => {
                    libc::sigaction(signal, &raw const default, ptr::null_mut());
                }
            }
        }
        let mut none = MaybeUninit::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tokio::runtime;

    use super::*;
    use crate::os::Child;

    #[test]
    fn child_exit_is_reported_when_sigchld_was_blocked() {
        let is_held_back = || {
            let status = fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
            let signals = u64::from_str_radix(line.unwrap().trim(), 16).unwrap();
            signals & (1 << (libc::SIGCHLD - 1)) != 0
        };
        let mut ends = MaybeUninit::uninit();
        // SAFETY: the set is written before it is read.
        unsafe {
            libc::sigemptyset(ends.as_mut_ptr());
            libc::sigaddset(ends.as_mut_ptr(), libc::SIGCHLD);
            libc::pthread_sigmask(libc::SIG_BLOCK, ends.as_ptr(), ptr::null_mut());
        }
        assert!(is_held_back());
        let program =
            CommandSpec { name: "true".into(), folder: "/".into(), ..CommandSpec::default() };
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut child = Child::spawn(&program).unwrap();
            assert!(!is_held_back());
            assert!(child.wait().await.unwrap().success());
        });
    }
}
