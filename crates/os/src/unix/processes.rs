//! Process groups, resource limits and memory of this process.

use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;
use std::{fs, io, ptr};

#[cfg(target_os = "linux")]
use rustix::io::Errno;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getegid, geteuid, getrlimit, kill_process_group, setrlimit,
    setsid,
};
#[cfg(target_os = "linux")]
use rustix::process::{getpid, getppid, set_parent_process_death_signal};

/// Returns the effective user and group ids.
pub fn user() -> Option<(u32, u32)> {
    Some((geteuid().as_raw(), getegid().as_raw()))
}

/// Makes the child lead a new process group with the child's id.
pub fn lead_group(command: &mut Command) {
    command.process_group(0);
}

/// Makes the child lead a new session without a terminal, in a process group with the child's id,
/// and ignore the signals that a terminal, a service manager or a script sends to end processes.
pub fn lead_session(command: &mut Command) {
    let prepare = || {
        setsid()?;
        #[cfg(target_os = "linux")]
        ignore_signals();
        Ok(())
    };
    #[expect(unsafe_code, reason = "the closure makes system calls and allocates nothing")]
    // SAFETY: between fork and exec, only async-signal-safe functions may run. The closure calls
    // only `setsid` and `signal`, and neither allocates nor takes a lock.
    unsafe {
        command.pre_exec(prepare);
    }
}

/// Makes the kernel kill the child when the thread that spawned it exits. Also hides open files
/// from it, such as those that a C library has opened.
#[cfg(target_os = "linux")]
pub(crate) fn die_with_parent(command: &mut Command) {
    let parent = getpid();
    let prepare = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the signal was set.
        if getppid() != Some(parent) {
            return Err(Errno::SRCH.into());
        }
        // Kernels without `close_range` leave it to `hide_inherited_files`.
        let _ = hide_open_files();
        Ok(())
    };
    #[expect(unsafe_code, reason = "the closure makes system calls and allocates nothing")]
    // SAFETY: between fork and exec, only async-signal-safe functions may run. The closure makes
    // three system calls, and neither allocates nor takes a lock.
    unsafe {
        command.pre_exec(prepare);
    }
}

#[cfg(target_os = "linux")]
fn ignore_signals() {
    for signal in [
        libc::SIGALRM,
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGIO,
        libc::SIGPIPE,
        libc::SIGPROF,
        libc::SIGPWR,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGVTALRM,
        libc::SIGXCPU,
        libc::SIGXFSZ,
    ] {
        #[expect(unsafe_code, reason = "there is no safe `signal`")]
        // SAFETY: ignoring a signal installs no handler.
        unsafe {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}

/// The number of the first descriptor after stdin, stdout and stderr.
const FIRST_FILE: RawFd = 3;

#[cfg(target_os = "linux")]
const OPEN_FILES: &str = "/proc/self/fd";
#[cfg(not(target_os = "linux"))]
const OPEN_FILES: &str = "/dev/fd";

/// Hides the descriptors that this program inherited from all programs that it starts, except the
/// standard streams. Must be called before the program starts threads. Files that Rust opens later
/// are hidden anyway.
pub fn hide_inherited_files() {
    #[cfg(target_os = "linux")]
    if hide_open_files().is_ok() {
        return;
    }
    hide_listed_files();
}

/// Sets the close-on-exec flag of every descriptor except the standard streams. Async-signal-safe.
#[cfg(target_os = "linux")]
fn hide_open_files() -> rustix::io::Result<()> {
    #[expect(unsafe_code, reason = "there is no safe `close_range`")]
    // SAFETY: the call changes only flags of descriptors.
    let result = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            FIRST_FILE,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    if result == 0 { Ok(()) } else { Err(Errno::NOSYS) }
}

/// Like [`hide_inherited_files`], for systems without `close_range` (before Linux 5.11).
fn hide_listed_files() {
    let listed = fs::read_dir(OPEN_FILES).into_iter().flatten().flatten();
    let numbers = listed.filter_map(|file| file.file_name().to_str()?.parse::<RawFd>().ok());
    for number in numbers.filter(|number| *number >= FIRST_FILE) {
        #[expect(unsafe_code, reason = "descriptors are known only by number")]
        // SAFETY: the descriptor isn't closed here, and only a flag changes. If it is closed
        // already, as the one of the listing itself, the call fails.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        let _ = fcntl_setfd(file, FdFlags::CLOEXEC);
    }
}

/// Unblocks SIGCHLD, which reports exits of children: this process may have inherited it blocked.
/// Must be called before the program starts threads, which inherit it in turn.
pub fn unblock_child_exits() {
    #[expect(unsafe_code, reason = "there is no safe `pthread_sigmask`")]
    // SAFETY: the set is written before it is read.
    unsafe {
        let mut exits = MaybeUninit::uninit();
        libc::sigemptyset(exits.as_mut_ptr());
        libc::sigaddset(exits.as_mut_ptr(), libc::SIGCHLD);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, exits.as_ptr(), ptr::null_mut());
    }
}

/// Sends SIGTERM to a process group.
pub fn terminate_group(group: u32) {
    signal_group(group, Signal::TERM);
}

/// Sends SIGKILL to a process group.
pub fn kill_group(group: u32) {
    signal_group(group, Signal::KILL);
}

fn signal_group(group: u32, signal: Signal) {
    if let Some(group) = i32::try_from(group).ok().and_then(Pid::from_raw) {
        // Fails if no process of the group is left.
        let _ = kill_process_group(group, signal);
    }
}

/// The soft and hard limit of open files before they were raised; `None` is unlimited.
static FILES_BEFORE: OnceLock<(Option<u64>, Option<u64>)> = OnceLock::new();

/// The highest soft limit that macOS accepts when the hard limit is unlimited.
const OPEN_MAX: u64 = 10_240;

/// Raises the soft limit of open files to the hard limit. Returns the new limit; `None` is
/// unlimited.
pub fn raise_file_limit() -> Option<u64> {
    let (_, hard) = *FILES_BEFORE.get_or_init(|| {
        let before = getrlimit(Resource::Nofile);
        (before.current, before.maximum)
    });
    let raise_to = |soft| {
        let raised = Rlimit { current: soft, maximum: hard };
        setrlimit(Resource::Nofile, raised)
    };
    if raise_to(hard).is_err() {
        // If this fails too, the limit stays unchanged.
        let _ = raise_to(Some(hard.map_or(OPEN_MAX, |hard| hard.min(OPEN_MAX))));
    }
    getrlimit(Resource::Nofile).current
}

/// Returns the original limit of open files, if it was raised. Children get it back: programs that
/// use `select` can't handle file descriptors above 1023.
fn file_limit_before() -> Option<Rlimit> {
    FILES_BEFORE.get().map(|&(current, maximum)| Rlimit { current, maximum })
}

/// Restores the original limit of open files in the child.
pub fn restore_file_limit(command: &mut Command) {
    let Some(limit) = file_limit_before() else { return };
    let prepare = move || Ok(setrlimit(Resource::Nofile, limit)?);
    #[expect(unsafe_code, reason = "the closure makes one system call and allocates nothing")]
    // SAFETY: between fork and exec, only async-signal-safe functions may run. The closure calls
    // only `setrlimit`, and neither allocates nor takes a lock.
    unsafe {
        command.pre_exec(prepare);
    }
}

/// Prevents other processes of this user from tracing this process and from reading its memory and
/// environment (`/proc/<pid>/mem`, `/proc/<pid>/environ`). Also disables its core dumps. Child
/// processes aren't affected.
///
/// # Errors
///
/// Returns an error if the kernel refuses.
#[cfg(target_os = "linux")]
pub fn disable_process_dumping() -> io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};

    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Does nothing: only Linux supports this.
#[cfg(not(target_os = "linux"))]
pub fn disable_process_dumping() -> io::Result<()> {
    Ok(())
}

/// Drops the clean pages of this program's file from the process, mostly code. Pages that are
/// needed again come back from the page cache. Startup touches most of the program, serving only a
/// small part of it.
#[cfg(target_os = "linux")]
pub fn drop_clean_program_pages() {
    advise_program_pages(ProgramPages::Drop);
}

#[cfg(target_os = "linux")]
#[derive(Clone, Copy)]
enum ProgramPages {
    Drop,
    #[cfg(test)]
    Load,
}

#[cfg(target_os = "linux")]
fn advise_program_pages(pages: ProgramPages) {
    let advice = match pages {
        ProgramPages::Drop => libc::MADV_DONTNEED,
        #[cfg(test)]
        ProgramPages::Load => libc::MADV_POPULATE_READ,
    };
    let Ok(program) = fs::read_link("/proc/self/exe") else { return };
    let Ok(maps) = fs::read_to_string("/proc/self/maps") else { return };
    for (start, length) in maps.lines().filter_map(|line| program_pages(line, &program)) {
        #[expect(unsafe_code, reason = "`madvise` on unmodified file pages")]
        // SAFETY: these are private mappings of the program's file that were never written to. The
        // next access to a dropped page reads the same bytes from the file again.
        unsafe {
            libc::madvise(start as *mut libc::c_void, length, advice);
        }
    }
}

/// Does nothing: only Linux tells which pages are clean.
#[cfg(not(target_os = "linux"))]
pub fn drop_clean_program_pages() {}

/// Returns the start and length of a line of `/proc/self/maps` if its pages are unmodified parts of
/// the program's file. These are the code, and the read-only first segment, which holds constants.
/// Later read-only segments may have been written to by the dynamic linker.
#[cfg(target_os = "linux")]
fn program_pages(line: &str, program: &std::path::Path) -> Option<(usize, usize)> {
    let mut words = line.splitn(6, ' ');
    let [range, access, offset] = [(); 3].map(|()| words.next());
    let path = words.nth(2)?.trim_start();
    let is_code = access? == "r-xp";
    let is_first = access? == "r--p" && offset?.bytes().all(|digit| digit == b'0');
    let (start, end) = range?.split_once('-')?;
    let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16).ok());
    let (start, end) = (start?, end?);
    ((is_code || is_first) && std::path::Path::new(path) == program)
        .then(|| (start, end.saturating_sub(start)))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::runtime;

    use super::*;
    use crate::{Child, CommandSpec};

    #[cfg(target_os = "linux")]
    #[test]
    fn only_clean_program_pages_are_selected() {
        let program = std::path::Path::new("/opt/a b");
        let pages = |line| program_pages(line, program);
        let code = "1000-3000 r-xp 00002000 fe:00 12     /opt/a b";
        assert_eq!(pages(code), Some((0x1000, 0x2000)));
        let first = "1000-3000 r--p 00000000 fe:00 12     /opt/a b";
        assert_eq!(pages(first), Some((0x1000, 0x2000)));
        for kept in [
            "1000-3000 r--p 00004000 fe:00 12     /opt/a b",
            "1000-3000 rw-p 00000000 fe:00 12     /opt/a b",
            "1000-3000 r-xp 00002000 fe:00 12     /usr/lib/libc.so.6",
            "1000-3000 r-xp 00000000 00:00 0     [vdso]",
            "1000-3000 rw-p 00000000 00:00 0 ",
            "x",
        ] {
            assert_eq!(pages(kept), None, "{kept}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn program_runs_on_after_dropping_its_pages() {
        let held = || fs::read_to_string("/proc/self/statm").unwrap();
        let shared = |text: &str| text.split(' ').nth(2).unwrap().parse::<u64>().unwrap();
        // A new process holds so few pages that reading `statm` can load more than were dropped.
        advise_program_pages(ProgramPages::Load);
        let before = shared(&held());
        drop_clean_program_pages();
        let after = shared(&held());
        assert!(after < before, "{before} pages of files before, {after} after");
    }

    #[test]
    fn inherited_files_are_hidden_without_close_range() {
        use rustix::io::fcntl_getfd;

        let inherited = fs::File::open("/dev/null").unwrap();
        fcntl_setfd(&inherited, FdFlags::empty()).unwrap();
        hide_listed_files();
        assert_eq!(fcntl_getfd(&inherited).unwrap(), FdFlags::CLOEXEC);
        fcntl_setfd(&inherited, FdFlags::empty()).unwrap();
        hide_inherited_files();
        assert_eq!(fcntl_getfd(&inherited).unwrap(), FdFlags::CLOEXEC);
        assert_eq!(fcntl_getfd(rustix::stdio::stdin()).unwrap(), FdFlags::empty());
    }

    #[test]
    fn children_get_the_original_file_limit() {
        let limit = getrlimit(Resource::Nofile);
        let low = Rlimit { current: Some(64), maximum: limit.maximum };
        setrlimit(Resource::Nofile, low).unwrap();
        assert!(raise_file_limit() > Some(64));
        let script = ["-c".into(), "ulimit -Sn".into()];
        #[expect(
            clippy::disallowed_methods,
            reason = "the test checks the initial state of a child"
        )]
        let mut command = Command::new("sh");
        restore_file_limit(command.args(&script));
        let said = command.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "64");
        let shell = CommandSpec {
            name: "sh".into(),
            args: script.into(),
            folder: "/".into(),
            ..CommandSpec::default()
        };
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut said = String::new();
            let mut child = Child::spawn(&shell).unwrap();
            let stdout = child.stdout.as_mut();
            stdout.unwrap().read_to_string(&mut said).await.unwrap();
            assert_eq!(said.trim(), "64");
        });
    }

    #[test]
    fn inherited_block_of_child_exits_is_lifted() {
        let mut exits = MaybeUninit::uninit();
        let mut blocked = MaybeUninit::uninit();
        #[expect(unsafe_code, reason = "the test blocks a signal")]
        // SAFETY: the sets are written before they are read.
        let is_blocked = unsafe {
            libc::sigemptyset(exits.as_mut_ptr());
            libc::sigaddset(exits.as_mut_ptr(), libc::SIGCHLD);
            libc::pthread_sigmask(libc::SIG_BLOCK, exits.as_ptr(), ptr::null_mut());
            unblock_child_exits();
            libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), blocked.as_mut_ptr());
            libc::sigismember(blocked.as_ptr(), libc::SIGCHLD)
        };
        assert_eq!(is_blocked, 0);
    }
}
