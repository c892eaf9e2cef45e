//! The secrets of the configuration that this process reads: nothing that it prints or logs has them,
//! whoever wrote it, but for configurations, which are printed as they are.

use std::borrow::Cow;
use std::sync::{PoisonError, RwLock};

use crate::observe::Secrets;
use crate::settings::Config;

/// The secrets of all configurations that were read.
static SECRETS: RwLock<Vec<Secrets>> = RwLock::new(Vec::new());

/// How many configurations are remembered: what an earlier one had may still be said.
const MAX: usize = 8;

/// Hides the secrets of a configuration from now on.
pub(crate) fn hide(config: &Config) {
    let secrets = Secrets::of_config(config);
    let mut all = SECRETS.write().unwrap_or_else(PoisonError::into_inner);
    if !all.contains(&secrets) {
        if all.len() == MAX {
            all.remove(0);
        }
        all.push(secrets);
    }
}

/// The text without them, written as they are or in JSON.
pub(crate) fn without_secrets(text: &str) -> Cow<'_, str> {
    let all = SECRETS.read().unwrap_or_else(PoisonError::into_inner);
    all.iter().fold(Cow::Borrowed(text), |text, secrets| match text {
        Cow::Borrowed(text) => secrets.redact_written(text),
        Cow::Owned(text) => Cow::Owned(secrets.redact_written(&text).into_owned()),
    })
}
