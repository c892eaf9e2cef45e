//! System calls that are denied to a sandboxed process.
//!
//! Landlock covers files. Sockets bypass it, and so do calls that reach into other processes or
//! make the kernel act on the caller's behalf (`io_uring`). No server needs these calls. They
//! return `EPERM`, or `ENOSYS` if libc has a fallback. Calls of another architecture, such as those
//! of 32-bit programs, kill the process.

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::process;

use libc::{Ioctl, c_long};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter, sock_filter,
};

use crate::SandboxRules;

/// Calls that reach into other processes, into the kernel, or around Landlock. System V IPC and
/// POSIX message queues are namespaces of the user that Landlock doesn't know.
const REFUSED: &[c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_kcmp,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_migrate_pages,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_msgctl,
    libc::SYS_msgget,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_semctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_shmdt,
    libc::SYS_shmget,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// Calls that return `ENOSYS`, so that libc falls back: `clone3` (seccomp cannot inspect its flags,
/// which are in memory) and `io_uring`.
const MISSING: &[c_long] = &[
    libc::SYS_clone3,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
];

/// Calls that change the scheduling or limits of the process in their first argument. Programs use
/// them on themselves.
const OF_PROCESS: &[c_long] = &[
    libc::SYS_move_pages,
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];

/// Like [`OF_PROCESS`], with the process in the second argument, if the first has this value.
/// Otherwise the call changes all processes of a group or a user.
const OF_SELECTED: &[(c_long, libc::c_int)] =
    &[(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)];

/// On x86-64, this bit in a call number selects the x32 ABI. It numbers some calls differently.
const X32: u32 = 0x4000_0000;

/// The bits of a socket's `type` argument that hold the type; the others are flags.
const SOCKET_KINDS: u64 = 0xf;

/// Denies the calls that the rules don't allow, to this thread and everything that it starts.
pub(crate) fn apply(cell: &SandboxRules) -> Result<(), String> {
    let refused = filter(refused(cell).map_err(|error| error.to_string())?, libc::EPERM)?;
    let missing = MISSING.iter().map(|call| (*call, Vec::new())).collect();
    let missing = filter(missing, libc::ENOSYS)?;
    let is_x86 = ARCH == "x86_64";
    let x32 = is_x86.then_some(&NO_X32[..]);
    let filters = x32.into_iter().chain([&*refused, &*missing]);
    filters.into_iter().try_for_each(apply_filter).map_err(|error| error.to_string())
}

/// Returns `ENOSYS` for all x32 calls, as kernels without that ABI do: load the call number, test
/// [`X32`], return.
const NO_X32: [sock_filter; 4] = [
    sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 },
    sock_filter { code: 0x45, jt: 0, jf: 1, k: X32 },
    sock_filter { code: 0x06, jt: 0, jf: 0, k: libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32 },
    sock_filter { code: 0x06, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
];

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

fn filter(rules: Rules, errno: i32) -> Result<BpfProgram, String> {
    let explain = |error: BackendError| error.to_string();
    let arch = TargetArch::try_from(ARCH).map_err(explain)?;
    let errno = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, errno, arch).map_err(explain)?;
    filter.try_into().map_err(explain)
}

fn refused(cell: &SandboxRules) -> Result<Rules, BackendError> {
    let mut rules: Rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let new_user = libc::CLONE_NEWUSER.unsigned_abs().into();
    let makes_user = condition(0, SeccompCmpOp::MaskedEq(new_user), new_user)?;
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![makes_user])?]);
    // The caller may name itself by 0 or by its id.
    let others = |argument| {
        let own = [0, process::id()].into_iter();
        own.map(|own| condition(argument, SeccompCmpOp::Ne, own.into())).collect::<Result<_, _>>()
    };
    for call in OF_PROCESS {
        rules.insert(*call, vec![SeccompRule::new(others(0)?)?]);
    }
    for (call, process) in OF_SELECTED {
        let is_many = condition(0, SeccompCmpOp::Ne, process.unsigned_abs().into())?;
        rules.insert(*call, vec![SeccompRule::new(vec![is_many])?, SeccompRule::new(others(1)?)?]);
    }
    // -1 means all processes of the user. Old kernels can't limit that to the sandbox.
    let everyone = condition(0, SeccompCmpOp::Eq, u32::MAX.into())?;
    rules.insert(libc::SYS_kill, vec![SeccompRule::new(vec![everyone])?]);
    // These requests inject input into the controlling terminal.
    #[allow(
        clippy::cast_sign_loss,
        clippy::unnecessary_cast,
        reason = "C libraries differ in the type of a request"
    )]
    let types =
        |request: Ioctl| SeccompRule::new(vec![condition(1, SeccompCmpOp::Eq, request as u64)?]);
    rules.insert(libc::SYS_ioctl, vec![types(libc::TIOCSTI)?, types(libc::TIOCLINUX)?]);
    // Name resolution lists network interfaces over netlink.
    let mut families = vec![libc::AF_NETLINK];
    if cell.has_network {
        families.extend([libc::AF_INET, libc::AF_INET6]);
    }
    if cell.has_unix_sockets {
        families.push(libc::AF_UNIX);
    } else {
        // A datagram socket from a pair can send to any socket in the file system.
        let kind = libc::SOCK_DGRAM.unsigned_abs().into();
        let is_datagram = condition(1, SeccompCmpOp::MaskedEq(SOCKET_KINDS), kind)?;
        rules.insert(libc::SYS_socketpair, vec![SeccompRule::new(vec![is_datagram])?]);
    }
    let families = families.into_iter();
    let others =
        families.map(|family| condition(0, SeccompCmpOp::Ne, family.unsigned_abs().into()));
    let is_other = SeccompRule::new(others.collect::<Result<_, _>>()?)?;
    rules.insert(libc::SYS_socket, vec![is_other]);
    Ok(rules)
}

fn condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}
