use pretty_assertions::assert_eq;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType, date_time_ymd};

use super::*;

fn made(common: &[&str], names: Vec<SanType>) -> Vec<u8> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "Example");
    for (index, name) in common.iter().enumerate() {
        // `rcgen` stores each type once, so further common names need a custom type.
        let kind = match index {
            0 => DnType::CommonName,
            _ => DnType::CustomDnType(vec![2, 5, 4, 3]),
        };
        params.distinguished_name.push(kind, *name);
    }
    params.subject_alt_names = names;
    params.not_before = date_time_ymd(1999, 12, 31);
    params.not_after = date_time_ymd(2050, 3, 1);
    let key = KeyPair::generate().unwrap();
    params.self_signed(&key).unwrap().der().to_vec()
}

fn agent(common: &[&str], names: Vec<SanType>) -> Option<String> {
    let read = Certificate::read(&made(common, names)).expect("a certificate");
    read.agent.map(|agent| agent.to_string())
}

#[test]
fn reads_utc_time_and_generalized_time() {
    let read = Certificate::read(&made(&["a"], Vec::new())).unwrap();
    // Years up to 2049 are encoded as `UTCTime`, later ones as `GeneralizedTime`.
    assert_eq!((read.not_before, read.not_after), (946_598_400, 2_529_705_600));
}

#[test]
fn reads_the_agent_name() {
    let dns = || SanType::DnsName("ci.example.com".try_into().unwrap());
    let uri = || SanType::URI("spiffe://example.com/ci".try_into().unwrap());
    let mail = || SanType::Rfc822Name("ci@example.com".try_into().unwrap());
    assert_eq!(agent(&["claude"], vec![dns()]).as_deref(), Some("claude"));
    assert_eq!(agent(&["Ärger"], Vec::new()).as_deref(), Some("Ärger"));
    assert_eq!(agent(&["claude "], vec![dns()]), None, "a name counts exactly as it is");
    assert_eq!(agent(&["\u{2003}claude"], Vec::new()), None);
    assert_eq!(agent(&[], vec![mail(), dns(), uri()]).as_deref(), Some("spiffe://example.com/ci"));
    assert_eq!(agent(&[], vec![mail(), dns()]).as_deref(), Some("ci.example.com"));
    assert_eq!(agent(&[], vec![mail()]).as_deref(), Some("ci@example.com"));
    assert_eq!(agent(&[], Vec::new()), None);
    assert_eq!(agent(&[""], vec![dns()]), None, "an invalid name must not be skipped");
    assert_eq!(agent(&["a\nb"], Vec::new()), None);
    assert_eq!(agent(&[&"a".repeat(257)], Vec::new()), None);
}

#[test]
fn several_common_names_yield_no_agent() {
    assert_eq!(agent(&["a", "b"], Vec::new()), None);
}

#[test]
fn malformed_certificates_do_not_panic() {
    let whole = made(&["claude"], vec![SanType::DnsName("a.example".try_into().unwrap())]);
    for length in 0..whole.len() {
        assert_eq!(Certificate::read(&whole[..length]), None, "{length}");
    }
    for at in 0..whole.len() {
        for byte in [0x00, 0x7F, 0x80, 0x84, 0xFF] {
            let mut other = whole.clone();
            other[at] = byte;
            // It may parse as another certificate, but must not panic.
            drop(Certificate::read(&other));
        }
    }
}
