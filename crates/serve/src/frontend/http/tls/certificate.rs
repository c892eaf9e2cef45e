//! The few things of a certificate (X.509, RFC 5280) that are looked at here: from when until when it is
//! good, and whom it names.
//!
//! Signatures are checked by `rustls` before, which does not tell dates and subjects.

use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode, Tag, Tagged};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use crate::name::AgentName;

/// The longest name of an agent, in bytes, as for tokens.
const MAX_NAME: usize = 256;

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ALTERNATIVE_NAMES: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");

/// The parts of a certificate that are looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    /// From when on it is good, in seconds since 1970.
    pub(crate) from: u64,
    /// Until when.
    pub(crate) until: u64,
    /// The agent that it names: the one common name of its subject, else the first alternative name. `None`
    /// where there is none, or several common names.
    pub(crate) agent: Option<AgentName>,
}

impl Certificate {
    /// Reads a certificate; nothing if it is none.
    pub(crate) fn read(der: &[u8]) -> Option<Self> {
        let certificate = x509_cert::Certificate::from_der(der).ok()?;
        let fields = certificate.tbs_certificate();
        let subject = fields.subject().iter();
        let common: Vec<_> = subject.filter(|attribute| attribute.oid == COMMON_NAME).collect();
        let agent = match common.as_slice() {
            [name] => text(name).and_then(named),
            [] => fields.extensions().and_then(|all| alternative_name(all)),
            _ => None,
        };
        let validity = fields.validity();
        Some(Self {
            from: validity.not_before.to_unix_duration().as_secs(),
            until: validity.not_after.to_unix_duration().as_secs(),
            agent,
        })
    }
}

/// The text of an attribute, of the kinds whose bytes are UTF-8.
fn text(attribute: &AttributeTypeAndValue) -> Option<&str> {
    let is_text =
        matches!(attribute.value.tag(), Tag::Utf8String | Tag::PrintableString | Tag::Ia5String);
    str::from_utf8(attribute.value.value()).ok().filter(|_| is_text)
}

/// The alternative name that names an agent, the first of a URI, as SPIFFE has it, of a DNS name and of an
/// e-mail address.
fn alternative_name(extensions: &[Extension]) -> Option<AgentName> {
    let names = extensions.iter().find(|extension| extension.extn_id == ALTERNATIVE_NAMES)?;
    let SubjectAltName(names) = SubjectAltName::from_der(names.extn_value.as_bytes()).ok()?;
    let kinds: [fn(&GeneralName) -> Option<&str>; 3] = [
        |name| match name {
            GeneralName::UniformResourceIdentifier(uri) => Some(uri.as_str()),
            _ => None,
        },
        |name| match name {
            GeneralName::DnsName(dns) => Some(dns.as_str()),
            _ => None,
        },
        |name| match name {
            GeneralName::Rfc822Name(address) => Some(address.as_str()),
            _ => None,
        },
    ];
    kinds.into_iter().find_map(|kind| named(names.iter().find_map(kind)?))
}

/// The agent with this name, by the rules for the names in tokens.
fn named(name: &str) -> Option<AgentName> {
    let name = name.trim();
    let is_name = !name.is_empty() && name.len() <= MAX_NAME && !name.chars().any(char::is_control);
    is_name.then(|| AgentName::new(name))
}

#[cfg(test)]
mod tests;
