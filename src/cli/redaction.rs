//! Redacts the configuration's secrets from all output and logs of this process. Printed
//! configurations are exempt.

use std::borrow::Cow;

use parking_lot::RwLock;

use crate::settings::Config;
use crate::telemetry::Redactor;

static SECRETS: RwLock<Vec<Redactor>> = RwLock::new(Vec::new());

/// Number of remembered configurations. Secrets of earlier ones may still appear in output.
const MAX: usize = 8;

pub(crate) fn register_secrets(config: &Config) {
    let secrets = Redactor::from_config(config);
    let mut all = SECRETS.write();
    if !all.contains(&secrets) {
        if all.len() == MAX {
            all.remove(0);
        }
        all.push(secrets);
    }
}

/// Masks registered secrets, both as plain text and JSON-escaped.
pub(crate) fn redact(text: &str) -> Cow<'_, str> {
    let all = SECRETS.read();
    all.iter().fold(Cow::Borrowed(text), |text, secrets| match text {
        Cow::Borrowed(text) => secrets.redact_json_text(text),
        Cow::Owned(text) => Cow::Owned(secrets.redact_json_text(&text).into_owned()),
    })
}
