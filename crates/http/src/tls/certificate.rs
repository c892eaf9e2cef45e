//! Reads validity and agent name from an X.509 certificate (RFC 5280). `rustls` verifies
//! signatures, but exposes neither dates nor subjects.

use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode, Tag, Tagged};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use mcp_workbench_names::AgentName;

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ALTERNATIVE_NAMES: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    /// Seconds since the Unix epoch.
    pub(crate) not_before: u64,
    /// Seconds since the Unix epoch.
    pub(crate) not_after: u64,
    /// The agent: the common name of the subject, or else the first alternative name. `None` if
    /// neither exists or there are several common names.
    pub(crate) agent: Option<AgentName>,
}

impl Certificate {
    pub(crate) fn read(der: &[u8]) -> Option<Self> {
        let certificate = x509_cert::Certificate::from_der(der).ok()?;
        let fields = certificate.tbs_certificate();
        let subject = fields.subject().iter();
        let common: Vec<_> = subject.filter(|attribute| attribute.oid == COMMON_NAME).collect();
        let agent = match common.as_slice() {
            [name] => text(name).and_then(AgentName::from_credential),
            [] => fields.extensions().and_then(|all| alternative_name(all)),
            _ => None,
        };
        let validity = fields.validity();
        Some(Self {
            not_before: validity.not_before.to_unix_duration().as_secs(),
            not_after: validity.not_after.to_unix_duration().as_secs(),
            agent,
        })
    }
}

/// Returns the text of an attribute whose encoding is a subset of UTF-8.
fn text(attribute: &AttributeTypeAndValue) -> Option<&str> {
    let is_text =
        matches!(attribute.value.tag(), Tag::Utf8String | Tag::PrintableString | Tag::Ia5String);
    str::from_utf8(attribute.value.value()).ok().filter(|_| is_text)
}

/// Returns the first alternative name that can name an agent: a URI (as in SPIFFE), else a DNS
/// name, else an e-mail address.
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
    let name = kinds.into_iter().find_map(|kind| names.iter().find_map(kind))?;
    AgentName::from_credential(name)
}

#[cfg(test)]
mod tests;
