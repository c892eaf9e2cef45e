//! Printing: data to standard output, everything else to standard error.

use std::fmt::Display;
use std::io::{self, Write};

/// Says why the command failed.
pub(crate) fn error(error: &impl Display) {
    note(error);
}

/// Says something beside the data.
pub(crate) fn note(text: &impl Display) {
    // There is nowhere left to say that standard error is closed.
    let _ = writeln!(io::stderr().lock(), "{text}");
}
