//! Signals that shut the program down or reload its configuration.

use std::fs::File;
use std::io;

use rustix::process::Signal as Number;
use tokio::signal::unix::{self, SignalKind};

use crate::Signal;

/// Receives signals instead of their default actions.
#[derive(Debug)]
pub struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hangup: unix::Signal,
    /// SIGXFSZ. Handling it makes hitting a file-size limit a write error, not a crash.
    _too_long: unix::Signal,
}

impl Signals {
    /// Installs the handlers. Must be called inside a Tokio runtime.
    ///
    /// # Errors
    ///
    /// Returns an error if a signal handler can't be installed.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: unix::signal(SignalKind::interrupt())?,
            terminate: unix::signal(SignalKind::terminate())?,
            hangup: unix::signal(SignalKind::hangup())?,
            _too_long: unix::signal(SignalKind::from_raw(Number::XFSZ.as_raw()))?,
        })
    }

    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::End("SIGINT"),
            _ = self.terminate.recv() => Signal::End("SIGTERM"),
            _ = self.hangup.recv() => Signal::Hangup,
        }
    }
}

/// Returns `true` if the program has a controlling terminal. Closing it is reported as
/// [`Signal::Hangup`].
pub fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}
