//! The few things of a certificate (X.509, RFC 5280) that are looked at here: from when until when it is
//! good, and whom it names.
//!
//! Signatures are checked by `rustls` before. It does not tell dates and subjects, and a parser of all of
//! X.509 would be a dozen crates for these.

use crate::name::AgentName;

/// The longest name of an agent, in bytes, as for tokens.
const MAX_NAME: usize = 256;

const SEQUENCE: u8 = 0x30;
const OBJECT: u8 = 0x06;
const BOOLEAN: u8 = 0x01;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// Texts whose bytes are UTF-8: `UTF8String`, `PrintableString` and `IA5String`.
const TEXTS: [u8; 3] = [0x0C, 0x13, 0x16];
/// The version, and the extensions.
const VERSION: u8 = 0xA0;
const EXTENSIONS: u8 = 0xA3;
/// 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// 2.5.29.17.
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1D, 0x11];
/// The kinds of alternative names that can name an agent, the first that there is: a URI, as SPIFFE has it, a
/// DNS name, an e-mail address.
const NAMES: [u8; 3] = [0x86, 0x82, 0x81];

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
        let mut certificate = Reader(Reader(der).of(SEQUENCE)?);
        let mut fields = Reader(certificate.of(SEQUENCE)?);
        let _version = fields.optional(VERSION);
        // The serial number, the kind of the signature, and who signed.
        for _ in 0..3 {
            fields.next()?;
        }
        let mut validity = Reader(fields.of(SEQUENCE)?);
        let (from, until) = (seconds(validity.next()?)?, seconds(validity.next()?)?);
        let subject = fields.of(SEQUENCE)?;
        let mut extensions = None;
        while let Some((kind, content)) = fields.next() {
            if kind == EXTENSIONS {
                extensions = Some(content);
            }
        }
        let agent = match common_names(subject).as_slice() {
            [name] => named(name),
            [] => extensions.and_then(alternative_name),
            _ => None,
        };
        Some(Self { from, until, agent })
    }
}

/// The common names of a subject, each as its bytes, empty where it is no text that is read here.
fn common_names(subject: &[u8]) -> Vec<&[u8]> {
    let mut names = Vec::new();
    let mut sets = Reader(subject);
    while let Some((_, set)) = sets.next() {
        let mut attributes = Reader(set);
        while let Some((_, attribute)) = attributes.next() {
            let mut attribute = Reader(attribute);
            if attribute.of(OBJECT) == Some(COMMON_NAME) {
                let text = attribute.next().filter(|(kind, _)| TEXTS.contains(kind));
                names.push(text.map_or(&[][..], |(_, text)| text));
            }
        }
    }
    names
}

/// The first alternative name that can name an agent.
fn alternative_name(extensions: &[u8]) -> Option<AgentName> {
    let mut all = Reader(Reader(extensions).of(SEQUENCE)?);
    while let Some((_, extension)) = all.next() {
        let mut extension = Reader(extension);
        if extension.of(OBJECT) != Some(ALTERNATIVE_NAMES) {
            continue;
        }
        let _is_critical = extension.optional(BOOLEAN);
        let (_, octets) = extension.next()?;
        let names = Reader(octets).of(SEQUENCE)?;
        return NAMES.into_iter().find_map(|kind| {
            let mut names = Reader(names);
            let mut first = None;
            while let (None, Some((found, name))) = (first, names.next()) {
                first = (found == kind).then_some(name);
            }
            named(first?)
        });
    }
    None
}

/// The agent with this name, by the rules for the names in tokens.
fn named(name: &[u8]) -> Option<AgentName> {
    let name = str::from_utf8(name).ok()?.trim();
    let is_name = !name.is_empty() && name.len() <= MAX_NAME && !name.chars().any(char::is_control);
    is_name.then(|| AgentName::new(name))
}

/// A time (RFC 5280 §4.1.2.5) in seconds since 1970; one before that is 0.
fn seconds((kind, text): (u8, &[u8])) -> Option<u64> {
    let text = str::from_utf8(text).ok().filter(|text| text.is_ascii())?.strip_suffix('Z')?;
    let (year, rest) = match kind {
        UTC_TIME => {
            let year: i64 = text.get(..2)?.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, text.get(2..)?)
        }
        GENERALIZED_TIME => (text.get(..4)?.parse().ok()?, text.get(4..)?),
        _ => return None,
    };
    if rest.len() != 10 {
        return None;
    }
    let number = |at: usize| rest.get(at..at + 2)?.parse::<i64>().ok();
    let (month, day) = (number(0)?, number(2)?);
    let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
    let time = number(4)? * 3600 + number(6)? * 60 + number(8)?;
    let days = days_until(year, month, day);
    is_date.then(|| u64::try_from(days * 86400 + time).unwrap_or_default())
}

/// The days from 1970-01-01 to a day of the Gregorian calendar.
fn days_until(year: i64, month: i64, day: i64) -> i64 {
    // Years begin with March here, so that a leap day is the last of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year
        - 719_468
}

/// A reader of values in DER (X.690 §8, §10).
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The next value: its tag, and its content.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&length, rest) = rest.split_first()?;
        let (length, rest) = if length < 0x80 {
            (usize::from(length), rest)
        } else {
            // A certificate is not longer than four bytes of length say.
            let count = usize::from(length & 0x7F);
            let (bytes, rest) =
                rest.split_at_checked(count).filter(|_| (1..=4).contains(&count))?;
            (bytes.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte)), rest)
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    /// The content of the next value, which has this tag.
    fn of(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }

    /// The content of the next value if it has this tag; else it is still the next.
    fn optional(&mut self, tag: u8) -> Option<&'a [u8]> {
        if self.0.first() == Some(&tag) { self.of(tag) } else { None }
    }
}

#[cfg(test)]
mod tests;
