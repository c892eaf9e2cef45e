//! Listings of servers, sealed, so that a workbench knows it before it has asked any of them.
//!
//! Under each key is when it was found to be true, in seconds since 1970, and the record. A list beside them, ordered
//! by when their time is over, says which have to go where there are too many.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::cmd;
use tokio::runtime::Handle;

use crate::backend::Elsewhere;
use crate::shared::keys::Keys;
use crate::shared::link::{Lane, Link};
use crate::shared::names::hash;
use crate::shared::scripts::ENTER;

/// How long a listing is kept that nobody finds to be true again.
const LIFETIME: Duration = Duration::from_hours(30 * 24);
/// The most bytes of one; a longer one is not kept.
const MAX_BYTES: usize = 1024 * 1024;
/// The most listings, and the most bytes of all; beyond, the oldest go.
const COUNT: usize = 512;
const TOTAL: usize = 32 * 1024 * 1024;
/// The bytes of what sealing adds, and more.
const SEAL: usize = 64;

/// The listings.
pub(crate) struct Listings {
    link: Arc<Link>,
    keys: Arc<Keys>,
    runtime: Handle,
}

impl fmt::Debug for Listings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listings")
    }
}

impl Listings {
    pub(crate) fn new(link: Arc<Link>, keys: Arc<Keys>) -> Self {
        Self { link, keys, runtime: Handle::current() }
    }

    async fn found(&self, fingerprint: &str) -> Option<(u64, Vec<u8>)> {
        let name = self.link.names.listing(fingerprint);
        let mut get = cmd("GETRANGE");
        get.arg(&name).arg(0).arg(8 + MAX_BYTES + SEAL);
        let sealed: Vec<u8> = self.link.ask(Lane::Bulk, &get).await.ok()?;
        if sealed.is_empty() {
            return None;
        }
        let Some(text) = self.keys.open(&name, &sealed) else {
            tracing::debug!("a listing in the shared store is passed over: no key opens it");
            return None;
        };
        let (since, record) = text.split_first_chunk()?;
        Some((u64::from_le_bytes(*since), record.to_vec()))
    }

    async fn share(&self, fingerprint: &str, since: u64, record: &[u8]) -> Option<()> {
        let name = self.link.names.listing(fingerprint);
        if record.len() > MAX_BYTES {
            return self.link.ask(Lane::Quick, cmd("DEL").arg(&name)).await.ok();
        }
        let text = [&since.to_le_bytes(), record].concat();
        let sealed = self.keys.seal(&name, &text).ok()?;
        let lifetime = LIFETIME.as_millis().to_string();
        let own = hash(fingerprint);
        let entry = format!("{own} {} - -", sealed.len());
        let (count, bytes) = (COUNT.to_string(), TOTAL.to_string());
        let words = [&entry, &own, &lifetime, &count, &bytes].map(String::as_bytes);
        let list = self.link.names.listings();
        let gone: Vec<String> = self.link.run(&ENTER, &list, &words).await.ok()?;
        for hash in gone.iter().filter_map(|entry| entry.split(' ').next()) {
            // An entry of another length was this one's before.
            if hash != own {
                let key = self.link.names.listing_of(hash);
                let _: Result<(), _> = self.link.ask(Lane::Quick, cmd("DEL").arg(key)).await;
            }
        }
        let mut set = cmd("SET");
        set.arg(&name).arg(sealed).arg("PX").arg(&lifetime);
        self.link.ask(Lane::Bulk, &set).await.ok()
    }
}

impl Elsewhere for Listings {
    fn key(&self) -> [u8; 64] {
        self.keys.of_listings()
    }

    fn find(&self, fingerprint: &str) -> Option<(u64, Vec<u8>)> {
        self.runtime.block_on(self.found(fingerprint))
    }

    fn keep(&self, fingerprint: &str, since: u64, record: &[u8]) {
        self.runtime.block_on(self.share(fingerprint, since, record));
    }
}
