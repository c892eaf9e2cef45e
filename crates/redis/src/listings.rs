//! Sealed listings of servers, so that a new workbench knows the tools before it has started any
//! server.
//!
//! A value is the time when the listing was last confirmed, in seconds since the Unix epoch, and
//! the record. A sorted set, ordered by expiry, is the index for evicting the oldest listings.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::cmd;
use tokio::runtime::Handle;

use crate::client::{ConnectionClass, StoreClient};
use crate::key_names::hash;
use crate::scripts::INDEX_INSERT;
use crate::sealing::{SEAL, SealingKeys};
use mcp_workbench_core::backend::SharedListingCache;

/// Lifetime of a listing that no workbench confirms.
const LIFETIME: Duration = Duration::from_hours(30 * 24);
/// Maximum size of a listing in bytes; larger ones aren't shared.
const MAX_BYTES: usize = 1024 * 1024;
/// Maximum number of listings and of bytes in total; beyond, the oldest are evicted.
const COUNT: usize = 512;
const TOTAL: usize = 32 * 1024 * 1024;

pub(crate) struct SealedListings {
    client: Arc<StoreClient>,
    keys: Arc<SealingKeys>,
    runtime: Handle,
}

impl fmt::Debug for SealedListings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listings")
    }
}

impl SealedListings {
    pub(crate) fn new(client: Arc<StoreClient>, keys: Arc<SealingKeys>) -> Self {
        Self { client, keys, runtime: Handle::current() }
    }

    async fn fetch(&self, fingerprint: &str) -> Option<(u64, Vec<u8>)> {
        let name = self.client.names.listing(fingerprint);
        let mut get = cmd("GETRANGE");
        get.arg(&name).arg(0).arg(8 + MAX_BYTES + SEAL);
        let sealed: Vec<u8> = self.client.query(ConnectionClass::Bulk, &get).await.ok()?;
        if sealed.is_empty() {
            return None;
        }
        let Some(text) = self.keys.open(&name, &sealed) else {
            tracing::debug!("ignored a tool list in the shared store: no key can decrypt it");
            return None;
        };
        let (since, record) = text.split_first_chunk()?;
        Some((u64::from_le_bytes(*since), record.to_vec()))
    }

    async fn publish(&self, fingerprint: &str, since: u64, record: &[u8]) -> Option<()> {
        let name = self.client.names.listing(fingerprint);
        if record.len() > MAX_BYTES {
            return self
                .client
                .query(ConnectionClass::Interactive, cmd("DEL").arg(&name))
                .await
                .ok();
        }
        let text = [&since.to_le_bytes(), record].concat();
        let sealed = self.keys.seal(&name, &text).ok()?;
        let lifetime = LIFETIME.as_millis().to_string();
        let own = hash(fingerprint);
        let entry = format!("{own} {} - -", sealed.len());
        let (count, bytes) = (COUNT.to_string(), TOTAL.to_string());
        let words = [&entry, &own, &lifetime, &count, &bytes].map(String::as_bytes);
        let list = self.client.names.listings();
        let gone: Vec<String> = self.client.run(&INDEX_INSERT, &list, &words).await.ok()?;
        for hash in gone.iter().filter_map(|entry| entry.split(' ').next()) {
            // Don't delete the listing that is written below.
            if hash != own {
                let key = self.client.names.listing_of(hash);
                let _: Result<(), _> =
                    self.client.query(ConnectionClass::Interactive, cmd("DEL").arg(key)).await;
            }
        }
        let mut set = cmd("SET");
        set.arg(&name).arg(sealed).arg("PX").arg(&lifetime);
        self.client.query(ConnectionClass::Bulk, &set).await.ok()
    }
}

impl SharedListingCache for SealedListings {
    fn key(&self) -> [u8; 64] {
        self.keys.listing_key()
    }

    fn find(&self, fingerprint: &str) -> Option<(u64, Vec<u8>)> {
        self.runtime.block_on(self.fetch(fingerprint))
    }

    fn keep(&self, fingerprint: &str, since: u64, record: &[u8]) {
        self.runtime.block_on(self.publish(fingerprint, since, record));
    }
}
