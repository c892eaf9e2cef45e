//! Signals that end the program, or have it read its configuration again.

use std::fs::File;
use std::io;

use rustix::process::Signal as Number;
use tokio::signal::unix::{self, SignalKind};

use crate::os::Signal;

/// The signals that we are sent from now on, instead of what they do by themselves.
#[derive(Debug)]
pub struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hangup: unix::Signal,
    /// A file is longer than it may be. The write fails then, and does not end us.
    _too_long: unix::Signal,
}

impl Signals {
    /// Begins to listen. Must be called inside a Tokio runtime.
    ///
    /// # Errors
    ///
    /// When the operating system lets us hear no signals.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: unix::signal(SignalKind::interrupt())?,
            terminate: unix::signal(SignalKind::terminate())?,
            hangup: unix::signal(SignalKind::hangup())?,
            _too_long: unix::signal(SignalKind::from_raw(Number::XFSZ.as_raw()))?,
        })
    }

    /// Waits for the next signal.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::End("SIGINT"),
            _ = self.terminate.recv() => Signal::End("SIGTERM"),
            _ = self.hangup.recv() => Signal::Hangup,
        }
    }
}

/// Returns `true` if we were started in a terminal that is still there. When it is closed,
/// [`Signal::Hangup`] says so.
pub fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}
