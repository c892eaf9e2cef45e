//! The listings that other workbenches have found, for what is not in the folder of this one.
//!
//! They go by a key of their own, which all who share them have. Whatever comes from there is read as strictly as a
//! file is, and is no more believed than that.

use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::backend::Reach;
use crate::backend::store::fingerprint::{Fingerprint, Key};
use crate::backend::store::record::Record;
use crate::settings::Protocol;

/// Listings that several workbenches share. All functions block, and are brief: where nothing can be found or kept,
/// it is as if it were not there.
pub trait Elsewhere: Debug + Send + Sync {
    /// The key of fingerprints there.
    fn key(&self) -> [u8; Key::LENGTH];

    /// The record under a fingerprint, and when it was found to be true, in seconds since 1970.
    fn find(&self, fingerprint: &str) -> Option<(u64, Vec<u8>)>;

    /// Keeps a record that was found to be true then.
    fn keep(&self, fingerprint: &str, since: u64, record: &[u8]);
}

/// The record of a server that others have kept, and when.
pub(super) fn recall(
    elsewhere: &dyn Elsewhere,
    reach: &Reach,
    protocol: Protocol,
) -> Option<(Record, SystemTime)> {
    let fingerprint = Fingerprint::new(&Key(elsewhere.key()), reach, protocol);
    let (since, text) = elsewhere.find(fingerprint.as_str())?;
    match Record::decode(&text) {
        Ok(record) => {
            // A clock that is ahead makes nothing true for longer.
            let since = UNIX_EPOCH.checked_add(Duration::from_secs(since))?;
            Some((record, since.min(SystemTime::now())))
        }
        Err(why) => {
            tracing::debug!("a listing of another workbench is ignored: {why}");
            None
        }
    }
}

/// Lets others know what a server has listed just now.
pub(super) fn keep(elsewhere: &dyn Elsewhere, reach: &Reach, protocol: Protocol, text: &[u8]) {
    let fingerprint = Fingerprint::new(&Key(elsewhere.key()), reach, protocol);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    elsewhere.keep(fingerprint.as_str(), since, text);
}
