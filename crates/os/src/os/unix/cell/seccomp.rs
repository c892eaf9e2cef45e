//! System calls that are denied to a sandboxed process.
//!
//! Landlock covers files. Sockets bypass it, and so do calls that reach into other processes or
//! make the kernel act on the caller's behalf (`io_uring`). No server needs these calls. They
//! return `EPERM`, or `ENOSYS` if libc has a fallback.

use std::collections::BTreeMap;
use std::env::consts::ARCH;

use libc::{Ioctl, c_long};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

use crate::os::SandboxRules;

/// Calls that reach into other processes, into the kernel, or around Landlock.
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
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
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

/// On x86-64, this bit in a call number selects the x32 ABI, which has the same calls.
const X32: c_long = 0x4000_0000;

/// The bits of a socket's `type` argument that hold the type; the others are flags.
const SOCKET_KINDS: u64 = 0xf;

/// Denies the calls that the rules don't allow, to this thread and everything that it starts.
pub(crate) fn apply(cell: &SandboxRules) -> Result<(), String> {
    let refused = filter(refused(cell).map_err(|error| error.to_string())?, libc::EPERM)?;
    let missing = MISSING.iter().map(|call| (*call, Vec::new())).collect();
    let missing = filter(missing, libc::ENOSYS)?;
    apply_filter(&refused).and_then(|()| apply_filter(&missing)).map_err(|error| error.to_string())
}

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

fn filter(rules: Rules, errno: i32) -> Result<BpfProgram, String> {
    let explain = |error: BackendError| error.to_string();
    let arch = TargetArch::try_from(ARCH).map_err(explain)?;
    let mut all = rules.clone();
    if ARCH == "x86_64" {
        all.extend(rules.into_iter().map(|(call, rules)| (call | X32, rules)));
    }
    let errno = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(all, SeccompAction::Allow, errno, arch).map_err(explain)?;
    filter.try_into().map_err(explain)
}

fn refused(cell: &SandboxRules) -> Result<Rules, BackendError> {
    let mut rules: Rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let new_user = libc::CLONE_NEWUSER.unsigned_abs().into();
    let makes_user = condition(0, SeccompCmpOp::MaskedEq(new_user), new_user)?;
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![makes_user])?]);
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
