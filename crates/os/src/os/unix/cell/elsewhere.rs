//! Every other Unix: nothing confines a process there that needs no rights of an administrator.

use crate::os::Cell;

/// Returns why processes cannot be confined here.
///
/// # Errors
///
/// Always.
pub fn can_confine() -> Result<(), String> {
    Err("servers can be confined on Linux alone".to_owned())
}

/// Confines nothing.
///
/// # Errors
///
/// Always.
pub fn confine(_: &Cell) -> Result<(), String> {
    can_confine()
}

/// Returns `false`: nothing is confined.
pub fn hides_from_signals() -> bool {
    false
}
