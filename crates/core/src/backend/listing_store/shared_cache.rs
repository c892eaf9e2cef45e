//! Listings shared between workbenches, for servers without a local listing.
//!
//! The workbenches share a fingerprint key. Shared records are decoded as strictly as local files.

use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::backend::ServerTransport;
use crate::backend::listing_store::fingerprint::{Fingerprint, StoreKey};
use crate::backend::listing_store::record::ListingRecord;
use mcp_workbench_settings::Protocol;

/// A cache of listings that several workbenches share. All functions block briefly; failures count
/// as misses.
pub trait SharedListingCache: Debug + Send + Sync {
    /// Returns the key of the fingerprints.
    fn key(&self) -> [u8; StoreKey::LENGTH];

    /// Returns a record and when it was confirmed, in seconds since the Unix epoch.
    fn find(&self, fingerprint: &str) -> Option<(u64, Vec<u8>)>;

    /// Stores a record that was confirmed at `since`.
    fn keep(&self, fingerprint: &str, since: u64, record: &[u8]);
}

pub(super) fn recall(
    elsewhere: &dyn SharedListingCache,
    reach: &ServerTransport,
    protocol: Protocol,
) -> Option<(ListingRecord, SystemTime)> {
    let fingerprint = Fingerprint::new(&StoreKey(elsewhere.key()), reach, protocol);
    let (since, text) = elsewhere.find(fingerprint.as_str())?;
    match ListingRecord::decode(&text) {
        Ok(record) => {
            // A writer's clock that is ahead must not make a listing look newer than now.
            let since = UNIX_EPOCH.checked_add(Duration::from_secs(since))?;
            Some((record, since.min(SystemTime::now())))
        }
        Err(why) => {
            tracing::debug!("ignored a tool list of the shared cache: {why}");
            None
        }
    }
}

pub(super) fn keep(
    elsewhere: &dyn SharedListingCache,
    reach: &ServerTransport,
    protocol: Protocol,
    text: &[u8],
) {
    let fingerprint = Fingerprint::new(&StoreKey(elsewhere.key()), reach, protocol);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    elsewhere.keep(fingerprint.as_str(), since, text);
}
