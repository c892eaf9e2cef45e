//! The Linux sandbox: Landlock for files, seccomp for sockets and access to other processes.

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use crate::os::SandboxRules;
use crate::os::unix::cell::seccomp;

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
    let status = by_landlock(cell).map_err(|error| error.to_string())?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err("Landlock did not restrict the process".to_owned());
    }
    seccomp::apply(cell)
}

fn by_landlock(cell: &SandboxRules) -> Result<RestrictionStatus, RulesetError> {
    Ruleset::default()
        .handle_access(AccessFs::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?
        .create()?
        .add_rules(path_beneath_rules(&cell.read, AccessFs::from_read(KNOWN)))?
        .add_rules(path_beneath_rules(&cell.write, AccessFs::from_all(KNOWN)))?
        .restrict_self()
}
