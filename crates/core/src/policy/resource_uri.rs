//! Resource URIs in all their spellings.
//!
//! A server may decode percent escapes, resolve `..`, accept `FILE:` for `file:`, or parse a URI
//! like a browser. A rule that forbids is therefore matched against every spelling that a server
//! might treat as equal. A rule that only allows is matched against the canonical spelling, and a
//! URI that could lead elsewhere has none.

use url::Url;

/// A URI that an agent requests, with its spellings.
#[derive(Debug)]
pub(crate) struct ResourceUri<'a> {
    pub(crate) written: &'a str,
    /// The spellings that a server might treat as equal, in lowercase.
    forms: Vec<String>,
    /// `None` if the URI could lead elsewhere, as with `..`, `\` or control characters.
    pub(crate) plain: Option<CanonicalUri>,
}

/// A decoded URI, and its part before `?` and `#`.
#[derive(Debug)]
pub(crate) struct CanonicalUri {
    pub(crate) whole: String,
    pub(crate) path: String,
}

/// Returns `true` if a server might treat both URIs as equal.
pub fn may_be_same_resource(uri: &str, other: &str) -> bool {
    ResourceUri::new(uri).may_equal(other)
}

impl<'a> ResourceUri<'a> {
    pub(crate) fn new(written: &'a str) -> Self {
        let parsed = Url::parse(written).ok().map(|mut url| {
            // An error means that the URI can't have a user.
            let _ = (url.set_username(""), url.set_password(None));
            url.to_string()
        });
        let mut forms = Vec::new();
        for spelling in [Some(written), parsed.as_deref()].into_iter().flatten() {
            let whole = normalize_ignoring_case(spelling);
            let path = before_query(&whole).to_owned();
            for form in [&whole, &path] {
                let trimmed = form.trim_end_matches(['/', '.', ' ']);
                for form in [form.as_str(), trimmed] {
                    if !forms.iter().any(|known| known == form) {
                        forms.push(form.to_owned());
                    }
                }
            }
        }
        Self { written, forms, plain: CanonicalUri::new(written) }
    }

    pub(crate) fn forms(&self) -> impl Iterator<Item = &str> {
        self.forms.iter().map(String::as_str)
    }

    /// Returns `true` if a server might treat both URIs as equal.
    pub(crate) fn may_equal(&self, other: &str) -> bool {
        let other = normalize_ignoring_case(other);
        let trimmed = other.trim_end_matches(['/', '.', ' ']);
        self.forms().any(|form| form == other || form == trimmed)
    }
}

impl CanonicalUri {
    fn new(written: &str) -> Option<Self> {
        let decoded = decoded(written);
        let leads_elsewhere = decoded.contains(|c: char| c.is_control() || c == '\\')
            || decoded.split(['/', '?', '#']).any(|part| matches!(part, "." | ".."));
        let whole = remove_dot_segments(&decoded);
        let path = before_query(&whole).to_owned();
        (!leads_elsewhere).then_some(Self { whole, path })
    }
}

/// Normalizes a URI, or a pattern over URIs, so that case, escapes, slashes and dots don't matter.
pub(crate) fn normalize_ignoring_case(text: &str) -> String {
    remove_dot_segments(&decoded(text.trim())).to_lowercase()
}

/// Like `normalize_ignoring_case`, but preserves case.
pub(crate) fn unencoded(text: &str) -> String {
    remove_dot_segments(&decoded(text))
}

fn before_query(text: &str) -> &str {
    text.split(['?', '#']).next().unwrap_or_default()
}

/// Decodes percent escapes, including nested ones.
fn decoded(text: &str) -> String {
    let mut bytes: Vec<u8> = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        bytes.push(byte);
        while let [.., b'%', high, low] = bytes[..]
            && let (Some(high), Some(low)) = (hex(high), hex(low))
        {
            bytes.truncate(bytes.len() - 3);
            bytes.push(high * 16 + low);
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| digit.try_into().ok())
}

/// Removes control characters, dot segments with the segments they cancel, and repeated slashes.
fn remove_dot_segments(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    let text = text.replace('\\', "/");
    let mut kept: Vec<&str> = Vec::new();
    let mut last = "";
    for (index, part) in text.split('/').enumerate() {
        match part {
            _ if index == 0 => kept.push(part),
            "" | "." => {}
            ".." => kept.truncate((kept.len() - 1).max(1)),
            part => kept.push(part),
        }
        last = part;
    }
    let mut straight = kept.join("/");
    if text.contains('/') && matches!(last, "" | "." | "..") {
        straight.push('/');
    }
    straight
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equivalent_spellings_are_equal() {
        for other in [
            "file:///etc/passwd",
            "FILE:///etc/passwd",
            "file:/etc/passwd",
            "file://localhost/etc/passwd",
            "file:///etc//passwd",
            "file:///etc/./passwd",
            "file:///etc/x/../passwd",
            "file:///../etc/passwd",
            "file:///etc/%70asswd",
            "file:///etc/%2570asswd",
            "file:///etc/%25252570asswd",
            "file:///etc%2Fpasswd",
            "file:///x/%2e%2e/etc/passwd",
            "file:///x/.%2E/etc/passwd",
            "file:\\\\\\etc\\passwd",
            "file:///etc/pass\twd",
            " file:///etc/passwd\n",
            "file:///etc/passwd/",
            "file:///etc/passwd?x=1",
            "file:///etc/passwd#x",
            "file:///ETC/Passwd",
        ] {
            assert!(ResourceUri::new(other).may_equal("file:///etc/passwd"), "{other:?}");
        }
        for other in ["file:///etc/passwd2", "file:///etc", "note:///etc/passwd"] {
            assert!(!ResourceUri::new(other).may_equal("file:///etc/passwd"), "{other:?}");
        }
        let is = |one: &str, other: &str| ResourceUri::new(one).may_equal(other);
        assert!(is("http://me:secret@EXAMPLE.com:80/a", "http://example.com/a"));
        assert!(is("http:\\\\example.com/a", "http://example.com/a"));
        assert!(is("http://ｅxample.com/a", "http://example.com/a"));
        assert!(is("note://a/../b", "note://b") && is("note://a/../b", "note://a/b"));
        assert!(is("plain%20name", "plain name") && is("%", "%") && is("%zz", "%ZZ"));
    }

    #[test]
    fn uri_that_could_lead_elsewhere_is_not_canonical() {
        for elsewhere in ["a:/b/../c", "a:/b/%2e%2e/c", "a:/b\\c", "a:/b%5Cc", "a:/b%00c", "a:/."] {
            assert!(ResourceUri::new(elsewhere).plain.is_none(), "{elsewhere}");
        }
        let plain = ResourceUri::new("a://My%20Docs/x?y=1").plain.unwrap();
        assert_eq!([&*plain.whole, &*plain.path], ["a:/My Docs/x?y=1", "a:/My Docs/x"]);
    }

    #[test]
    fn long_uris_are_normalized_quickly() {
        let nested = format!("a:/%{}", "25".repeat(300_000));
        assert!(ResourceUri::new(&nested).may_equal("a:/%"));
        let deep = format!("a:/{}b", "x/../".repeat(200_000));
        assert!(ResourceUri::new(&deep).may_equal("a:/b"));
    }
}
