//! Progress: a spinner on standard error while something takes long, if that is a terminal.

use std::time::Duration;

use indicatif::ProgressBar;

use crate::cli::print::printable;

/// How often the spinner moves.
const TICK: Duration = Duration::from_millis(100);

/// A spinner with a message; it is gone when it is dropped.
pub(crate) struct Spinner(ProgressBar);

impl Spinner {
    pub(crate) fn new(message: &str) -> Self {
        let bar = ProgressBar::new_spinner().with_message(printable(message));
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    /// Says something else from here on.
    pub(crate) fn say(&self, message: &str) {
        self.0.set_message(printable(message));
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
