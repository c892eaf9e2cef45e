//! The first moment of a child: everything it does until it is the program that was asked for.
//!
//! It shares our memory meanwhile, on a stack of its own, and the thread that starts it waits. So it only makes
//! system calls: it allocates nothing, takes no lock, and no handler of ours may run in it.
#![expect(unsafe_code, reason = "there is no safe way to begin a process")]

use std::cell::Cell;
use std::convert::Infallible;
use std::ffi::{CStr, CString, NulError, OsStr};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use libc::{c_char, c_int, c_void};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, chdir, getpid, getppid,
    set_parent_process_death_signal, setpgid, setrlimit, waitpid,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use crate::os::child::{DEFAULT_PATH, Program};
use crate::os::native::file_limit_before;

/// The bytes of the stack of a child: many more than its few system calls need.
const STACK: usize = 64 * 1024;

/// The program that runs a script which names none.
const SHELL: &CStr = c"/bin/sh";

/// A word of a list for the kernel, which ends with a null.
type Word = Cell<*const c_char>;

/// Everything that a child needs, none of which it has to compute.
struct Plan<'a> {
    /// The files that it may be, in the order in which they are tried.
    files: &'a [CString],
    /// The shell, the name of the program, and its arguments.
    words: &'a [Word],
    variables: &'a [Word],
    folder: &'a CStr,
    /// The ends of its input, its output and its errors. None of them is a standard stream of
    /// ours: those of a Rust program are open from its start.
    streams: [&'a OwnedFd; 3],
    parent: Pid,
    file_limit: Option<Rlimit>,
    /// Why it could not become any of the files.
    error: Cell<Option<Errno>>,
}

/// Begins a process and returns when it is the program.
pub(super) fn begin(program: &Program, streams: [&OwnedFd; 3]) -> io::Result<Pid> {
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
    let process = Pid::from_raw(plan.begun()?).ok_or(io::ErrorKind::Other)?;
    let Some(error) = plan.error.get() else { return Ok(process) };
    // It has ended, and nobody else is to wait for it.
    let _ = retry_on_intr(|| waitpid(Some(process), WaitOptions::empty()));
    Err(error.into())
}

/// The files that a program may be.
fn files(program: &Program) -> Result<Vec<CString>, NulError> {
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
    // A folder without a name is the one that the program runs in.
    let files = folders.map(|folder| Path::new(folder).join(name));
    files.map(|file| CString::new(file.into_os_string().as_bytes())).collect()
}

fn words<'a>(texts: impl Iterator<Item = &'a CStr>) -> Vec<Word> {
    texts.map(CStr::as_ptr).chain([ptr::null()]).map(Cell::new).collect()
}

impl Plan<'_> {
    /// Begins a process that carries it out, and returns its id when that has become the program or has failed to.
    fn begun(&self) -> io::Result<c_int> {
        let mut stack = Vec::<u128>::with_capacity(STACK / size_of::<u128>());
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let mut every = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: the sets are written before they are read. The child runs `carry_out` on a stack that nobody else
        // uses, with signals held back so that no handler of ours runs there, and with a plan that outlives it:
        // with `CLONE_VFORK` this thread goes on when the child has another memory or has ended.
        unsafe {
            libc::sigfillset(every.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, every.as_ptr(), before.as_mut_ptr());
            let top = stack.as_mut_ptr().add(stack.capacity());
            let plan = ptr::from_ref(self).cast_mut();
            let process = libc::clone(carry_out, top.cast(), flags, plan.cast());
            let process = if process < 0 { Err(io::Error::last_os_error()) } else { Ok(process) };
            // By this one we hear of a child's end, whatever whoever started us has held back.
            libc::sigdelset(before.as_mut_ptr(), libc::SIGCHLD);
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
            process
        }
    }

    /// Becomes the program.
    fn carried_out(&self) -> Result<Infallible, Errno> {
        forget_handlers();
        setpgid(None, None)?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // We may have died before the signal was set.
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
        chdir(self.folder)?;
        let [_, program @ ..] = self.words else { return Err(Errno::INVAL) };
        let mut error = Errno::NOENT;
        for file in self.files {
            match self.executed(file, program) {
                Errno::NOENT | Errno::NOTDIR | Errno::STALE | Errno::NODEV | Errno::TIMEDOUT => {}
                // What may not be executed counts only where nothing else is found.
                Errno::ACCESS => error = Errno::ACCESS,
                Errno::NOEXEC => return Err(self.run_by_shell(file)),
                other => return Err(other),
            }
        }
        Err(error)
    }

    /// Becomes the shell that runs a file, which does not say what it is to be run by, and returns why not.
    fn run_by_shell(&self, file: &CStr) -> Errno {
        let [_, name, ..] = self.words else { return Errno::INVAL };
        name.set(file.as_ptr());
        self.executed(SHELL, self.words)
    }

    /// Becomes a file with these words, and returns why not.
    fn executed(&self, file: &CStr, words: &[Word]) -> Errno {
        // SAFETY: both lists end with a null, and what they and `file` point at is borrowed.
        unsafe {
            libc::execve(file.as_ptr(), words.as_ptr().cast(), self.variables.as_ptr().cast())
        };
        Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)
    }
}

/// Where a child begins. Its thread ends with what this returns, as the process does.
extern "C" fn carry_out(plan: *mut c_void) -> c_int {
    // SAFETY: `Plan::begun` hands a plan over, and touches it again when we are done with it.
    let plan = unsafe { &*plan.cast::<Plan<'_>>() };
    let Err(error) = plan.carried_out();
    plan.error.set(Some(error));
    127
}

/// Takes back how signals are handled, and holds none back any more: no handler of ours may run in a child, and
/// what we ignore because every Rust program does, the program is not to ignore.
fn forget_handlers() {
    // SAFETY: zeros are a valid action, the default one; the pointers are to values that live here.
    unsafe {
        let default = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        for signal in 1..=libc::SIGRTMAX() {
            let mut action = default;
            // The numbers that the C library keeps for itself are refused.
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
    fn the_end_of_a_child_is_heard_of_where_its_signal_was_held_back() {
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
        let program = Program { name: "true".into(), folder: "/".into(), ..Program::default() };
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut child = Child::start(&program).unwrap();
            assert!(!is_held_back());
            assert!(child.wait().await.unwrap().success());
        });
    }
}
