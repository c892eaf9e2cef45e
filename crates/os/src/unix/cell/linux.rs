//! The Linux sandbox: Landlock for files, seccomp for sockets and access to other processes.

use std::os::fd::OwnedFd;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, RestrictionStatus,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use crate::unix::cell::seccomp;
use crate::unix::pinned::open_without_links;
use crate::{PinnedPath, SandboxRules};

/// The newest Landlock ABI to request. Rights that the kernel doesn't know are left out.
const KNOWN: ABI = ABI::V8;

/// Checks that this kernel supports the sandbox.
///
/// # Errors
///
/// A message that says what is missing.
pub fn check_sandbox_support() -> Result<(), String> {
    let files = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .and_then(Ruleset::create);
    files.map(drop).map_err(|_| {
        "this kernel does not support Landlock (it needs Linux 5.13 or newer, with Landlock \
         enabled in `lsm=`)"
            .to_owned()
    })
}

/// Returns `true` if sandboxed processes can't signal processes outside (Linux 6.12).
pub fn supports_signal_scope() -> bool {
    let signals = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(Scope::Signal)
        .and_then(Ruleset::create);
    signals.is_ok()
}

/// Sandboxes this thread and everything that it starts, permanently. Other threads aren't affected,
/// so call this while the process has only one.
///
/// # Errors
///
/// The step that failed. The process may then be partly sandboxed.
pub fn enter_sandbox(cell: &SandboxRules) -> Result<(), String> {
    check_sandbox_support()?;
    // With capabilities, root could still look into other processes.
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).map_err(|error| error.to_string())?;
    let read = rules(&cell.read, AccessFs::from_read(KNOWN))?;
    let write = rules(&cell.write, AccessFs::from_all(KNOWN))?;
    let status = by_landlock(read, write).map_err(|error| error.to_string())?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err("Landlock did not restrict the process".to_owned());
    }
    seccomp::apply(cell)
}

type FileRule = PathBeneath<OwnedFd>;

/// Opens the paths and checks that they still lead to the pinned files and folders: another process
/// could have replaced one of them by a link to a file that this process shouldn't reach.
fn rules(paths: &[PinnedPath], access: BitFlags<AccessFs>) -> Result<Vec<FileRule>, String> {
    let mut rules = Vec::with_capacity(paths.len());
    for pinned in paths {
        let changed = || format!("`{}` was replaced during the start", pinned.path().display());
        match open_without_links(pinned.path()) {
            Ok((file, stat)) if (stat.st_dev, stat.st_ino) == pinned.identity() => {
                let is_folder = FileType::from_raw_mode(stat.st_mode).is_dir();
                let access = if is_folder { access } else { access & AccessFs::from_file(KNOWN) };
                rules.push(PathBeneath::new(file, access));
            }
            Ok(_) => return Err(changed()),
            // A link at the end of the path, or before it.
            Err(error)
                if matches!(Errno::from_io_error(&error), Some(Errno::LOOP | Errno::NOTDIR)) =>
            {
                return Err(changed());
            }
            // Without a rule, the path is inaccessible.
            Err(_) => {}
        }
    }
    Ok(rules)
}

fn by_landlock(
    read: Vec<FileRule>,
    write: Vec<FileRule>,
) -> Result<RestrictionStatus, RulesetError> {
    Ruleset::default()
        .handle_access(AccessFs::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?
        .create()?
        .add_rules(read.into_iter().map(Ok::<_, RulesetError>))?
        .add_rules(write.into_iter().map(Ok::<_, RulesetError>))?
        .restrict_self()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::thread;

    use rustix::io::Errno;
    use rustix::process::{Resource, getpid, getppid, getrlimit, prlimit};
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    use tempfile::TempDir;

    use super::*;

    /// Runs `test` on a thread in a sandbox, if this kernel has one.
    fn sandboxed(cell: &SandboxRules, test: impl FnOnce(Result<(), String>) + Send) {
        if check_sandbox_support().is_err() {
            eprintln!("skipped: this kernel has no sandbox");
            return;
        }
        thread::scope(|scope| scope.spawn(|| test(enter_sandbox(cell))).join().unwrap());
    }

    #[test]
    fn folder_replaced_during_the_start_is_refused() {
        let folder = TempDir::new().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let [data, private] = ["data", "private"].map(|name| folder.join(name));
        fs::create_dir(&private).unwrap();
        for is_link in [true, false] {
            fs::create_dir(&data).unwrap();
            let pinned = PinnedPath::new(&data).unwrap();
            // Keeps the inode in use.
            fs::rename(&data, folder.join(format!("before {is_link}"))).unwrap();
            if is_link {
                symlink(&private, &data).unwrap();
            } else {
                fs::create_dir(&data).unwrap();
            }
            let cell = SandboxRules { write: vec![pinned], ..SandboxRules::default() };
            sandboxed(&cell, |entered| {
                let error = entered.unwrap_err();
                assert!(error.contains("was replaced during the start"), "{is_link}: {error}");
            });
            fs::remove_dir(&data).or_else(|_| fs::remove_file(&data)).unwrap();
        }
    }

    #[test]
    fn pinned_folder_is_granted_and_missing_ones_are_ignored() {
        let folder = TempDir::new().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let [data, gone] = ["data", "gone"].map(|name| folder.join(name));
        fs::create_dir(&data).unwrap();
        fs::create_dir(&gone).unwrap();
        let write = [&data, &gone].map(|path| PinnedPath::new(path).unwrap()).to_vec();
        fs::remove_dir(&gone).unwrap();
        let outside = folder.join("outside");
        sandboxed(&SandboxRules { write, ..SandboxRules::default() }, |entered| {
            entered.unwrap();
            fs::write(data.join("file"), "").unwrap();
            assert!(fs::write(&outside, "").is_err());
        });
    }

    #[test]
    fn process_changes_its_own_limits_and_affinity_only() {
        let other = getppid().unwrap();
        sandboxed(&SandboxRules::default(), |entered| {
            entered.unwrap();
            for own in [None, Some(getpid())] {
                let limit = getrlimit(Resource::Core);
                assert!(prlimit(own, Resource::Core, limit).is_ok());
            }
            let processors = sched_getaffinity(None).unwrap();
            assert_eq!(sched_setaffinity(None, &processors), Ok(()));
            let limit = getrlimit(Resource::Core);
            assert_eq!(prlimit(Some(other), Resource::Core, limit).unwrap_err(), Errno::PERM);
            assert_eq!(sched_setaffinity(Some(other), &CpuSet::new()), Err(Errno::PERM));
        });
    }
}
