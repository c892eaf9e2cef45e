//! Groups of processes, and the end of a child.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

use rustix::process::{
    Pid, Resource, Rlimit, Signal, getegid, geteuid, getrlimit, kill_process, kill_process_group,
    setrlimit,
};

/// Returns the numbers of the user and the group that we act as.
pub fn user() -> Option<(u32, u32)> {
    Some((geteuid().as_raw(), getegid().as_raw()))
}

/// Makes the child lead a process group of its own, whose id is the child's.
pub fn lead_group(command: &mut Command) {
    command.process_group(0);
}

/// Asks every process of a group to end.
pub fn terminate_group(group: u32) {
    signal_group(group, Signal::TERM);
}

/// Kills every process of a group.
pub fn kill_group(group: u32) {
    signal_group(group, Signal::KILL);
}

fn signal_group(group: u32, signal: Signal) {
    if let Some(group) = i32::try_from(group).ok().and_then(Pid::from_raw) {
        // An error means that nothing of the group is left.
        let _ = kill_process_group(group, signal);
    }
}

/// Asks a workbench to read its configuration again, with SIGHUP.
///
/// # Errors
///
/// When there is no such process, or it is another user's.
pub fn ask_to_reload(process: u32) -> io::Result<()> {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    let process = process.ok_or(io::ErrorKind::InvalidInput)?;
    Ok(kill_process(process, Signal::HUP)?)
}

/// The soft and the hard limit of open files that we had before they were raised.
static FILES_BEFORE: OnceLock<(Option<u64>, Option<u64>)> = OnceLock::new();

/// The most files that a macOS program may open where its hard limit says any number.
const OPEN_MAX: u64 = 10_240;

/// Lets us open as many files as the hard limit says, and returns how many that are; `None`: any
/// number.
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
        // What we have stays as it is where that fails too.
        let _ = raise_to(Some(hard.map_or(OPEN_MAX, |hard| hard.min(OPEN_MAX))));
    }
    getrlimit(Resource::Nofile).current
}

/// Returns the limit of open files that we had at the start, if it was raised. Children have it: a program that
/// uses `select` cannot use files with high numbers.
pub(crate) fn file_limit_before() -> Option<Rlimit> {
    FILES_BEFORE.get().map(|&(current, maximum)| Rlimit { current, maximum })
}

/// Gives the child the limit of open files that we had at the start.
pub fn keep_file_limit(command: &mut Command) {
    let Some(limit) = file_limit_before() else { return };
    let prepare = move || Ok(setrlimit(Resource::Nofile, limit)?);
    #[expect(unsafe_code, reason = "the closure makes one system call and allocates nothing")]
    // SAFETY: between fork and exec only async-signal-safe functions may run; setrlimit is one, and
    // nothing here allocates or takes a lock.
    unsafe {
        command.pre_exec(prepare);
    }
}

/// Keeps other processes of the same user from reading the memory and the environment of this one
/// (`/proc/<pid>/mem`, `/proc/<pid>/environ`) and from tracing it. There are no core dumps of it then.
/// Processes that it starts are not sealed.
///
/// # Errors
///
/// When the kernel does not do it.
#[cfg(target_os = "linux")]
pub fn seal_process() -> io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};

    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Does nothing: elsewhere than on Linux a process cannot be kept from its own user.
///
/// # Errors
///
/// Never.
#[cfg(not(target_os = "linux"))]
pub fn seal_process() -> io::Result<()> {
    Ok(())
}

/// Gives back the pages of the program's file that were read into this process so far, its code above all.
/// What is needed again comes from the page cache, a few pages at a time: starting alone reads most of
/// the program, and serving little of it.
#[cfg(target_os = "linux")]
pub fn release_program_pages() {
    let Ok(program) = std::fs::read_link("/proc/self/exe") else { return };
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return };
    for (start, length) in maps.lines().filter_map(|line| program_pages(line, &program)) {
        #[expect(
            unsafe_code,
            reason = "only the kernel is told, of pages that are as in their file"
        )]
        // SAFETY: the pages are mapped privately from our own file and were never writable, so that
        // whoever reads them next finds the same bytes, read from the file again.
        unsafe {
            libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED);
        }
    }
}

/// Keeps all pages: elsewhere than on Linux a process cannot see which of them nothing has written to.
#[cfg(not(target_os = "linux"))]
pub fn release_program_pages() {}

/// Has memory that a long message was in be used again for the next one. The allocator of the GNU library would
/// give it back after each, and the kernel would clear every page of it anew, which costs more than all that
/// is done with the message. At most [`KEPT_MEMORY`] stay with each of its arenas.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn reuse_memory() {
    #[expect(unsafe_code, reason = "a setting of the allocator, which takes any number")]
    // SAFETY: `mallopt` may be called at any time, from any thread; it takes a lock of its own.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, KEPT_MEMORY / 2);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_MEMORY);
    }
}

/// The bytes of unused memory above which the allocator gives it back: some messages of the length that is
/// sent at all often.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT_MEMORY: libc::c_int = 8 * 1024 * 1024;

/// Does nothing: other allocators decide it themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn reuse_memory() {}

/// Returns the address and the bytes of a line of `/proc/self/maps`, if nobody can have written to these pages of the
/// program's file: its code, and the part that the file begins with, which has constants. A later part without
/// code may have been writable while the program was linked at its start.
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
    use crate::os::{Child, Program};

    #[cfg(target_os = "linux")]
    #[test]
    fn code_and_constants_can_be_read_again_and_what_was_written_is_kept() {
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
    fn a_program_goes_on_without_the_pages_that_it_has_read() {
        let held = || std::fs::read_to_string("/proc/self/statm").unwrap();
        let shared = |text: &str| text.split(' ').nth(2).unwrap().parse::<u64>().unwrap();
        let before = shared(&held());
        release_program_pages();
        let after = shared(&held());
        assert!(after < before, "{before} pages of files before, {after} after");
    }

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn the_next_long_message_is_in_the_memory_of_the_last() {
        let faults = || {
            let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
            let (_, stat) = stat.rsplit_once(") ").unwrap();
            stat.split(' ').nth(7).unwrap().parse::<usize>().unwrap()
        };
        let messages = || {
            let before = faults();
            for byte in 0..50 {
                std::hint::black_box(vec![byte | 1_u8; 1_000_000]);
            }
            faults() - before
        };
        let each_time = messages();
        reuse_memory();
        messages();
        let reused = messages();
        assert!(reused * 10 < each_time, "{each_time} pages were cleared before, {reused} after");
    }

    #[test]
    fn we_may_open_more_files_and_a_child_as_many_as_before() {
        let limit = getrlimit(Resource::Nofile);
        let low = Rlimit { current: Some(64), maximum: limit.maximum };
        setrlimit(Resource::Nofile, low).unwrap();
        assert!(raise_file_limit() > Some(64));
        let script = ["-c".into(), "ulimit -Sn".into()];
        #[expect(clippy::disallowed_methods, reason = "a test of what children start with")]
        let mut command = Command::new("sh");
        keep_file_limit(command.args(&script));
        let said = command.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "64");
        let shell = Program {
            name: "sh".into(),
            args: script.into(),
            folder: "/".into(),
            ..Program::default()
        };
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut said = String::new();
            let mut child = Child::start(&shell).unwrap();
            let stdout = child.stdout.as_mut();
            stdout.unwrap().read_to_string(&mut said).await.unwrap();
            assert_eq!(said.trim(), "64");
        });
    }
}
