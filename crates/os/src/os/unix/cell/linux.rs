//! Linux: files by Landlock, sockets and what reaches into other processes by seccomp.

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, RestrictionStatus, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use crate::os::Cell;
use crate::os::unix::cell::seccomp;

/// The newest rights over files that we know of. Those that the kernel does not know are not asked for.
const KNOWN: ABI = ABI::V8;

/// Checks that processes can be confined here.
///
/// # Errors
///
/// Why they cannot.
pub fn can_confine() -> Result<(), String> {
    let files = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .and_then(Ruleset::create);
    files.map(drop).map_err(|_| {
        "this kernel has no Landlock (Linux 5.13 and newer have it, unless it is switched off: \
         see `lsm=` in its command line)"
            .to_owned()
    })
}

/// Returns `true` if the kernel keeps signals of confined processes from others (Linux 6.12).
pub fn hides_from_signals() -> bool {
    let signals = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(Scope::Signal)
        .and_then(Ruleset::create);
    signals.is_ok()
}

/// Confines this process, and all that it starts from now on, for good. Only the thread that calls it
/// is confined, so it should be the only one.
///
/// # Errors
///
/// The step that failed; the process is then not, or not wholly, confined.
pub fn confine(cell: &Cell) -> Result<(), String> {
    can_confine()?;
    // An administrator could look into other processes all the same.
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).map_err(|error| error.to_string())?;
    let status = by_landlock(cell).map_err(|error| error.to_string())?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err("Landlock does not hold".to_owned());
    }
    seccomp::apply(cell)
}

fn by_landlock(cell: &Cell) -> Result<RestrictionStatus, RulesetError> {
    Ruleset::default()
        .handle_access(AccessFs::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?
        .create()?
        .add_rules(path_beneath_rules(&cell.read, AccessFs::from_read(KNOWN)))?
        .add_rules(path_beneath_rules(&cell.write, AccessFs::from_all(KNOWN)))?
        .restrict_self()
}
