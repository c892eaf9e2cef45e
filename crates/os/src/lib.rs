//! Platform differences behind one API.

pub mod os;
