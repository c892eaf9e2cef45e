//! A progress spinner on stderr, shown only on a terminal.

use std::time::Duration;

use indicatif::ProgressBar;

use crate::cli::output::print::escape_to_line;

const TICK: Duration = Duration::from_millis(100);

/// Cleared when dropped.
pub(crate) struct Spinner(ProgressBar);

impl Spinner {
    pub(crate) fn new(message: &str) -> Self {
        let bar = ProgressBar::new_spinner().with_message(escape_to_line(message));
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    pub(crate) fn say(&self, message: &str) {
        self.0.set_message(escape_to_line(message));
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
