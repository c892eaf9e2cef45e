//! Differences between platforms, for everybody above.

pub mod os;
