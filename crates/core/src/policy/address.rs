//! Addresses of resources, however they are spelled.
//!
//! A server may undo encodings, resolve `..`, take `FILE:` for `file:`, or read an address as browsers
//! do. So an address is looked at in all the spellings that one may take for it where something is
//! forbidden; and in its plainest alone, without anything that could lead elsewhere, where only
//! something is allowed.

use url::Url;

/// An address that an agent asks for, with its spellings.
#[derive(Debug)]
pub(crate) struct Address<'a> {
    /// The address as it is written.
    pub(crate) written: &'a str,
    /// The spellings that a server may take for it, without regard to case.
    forms: Vec<String>,
    /// The address without encodings; `None` if it has something that could lead elsewhere.
    pub(crate) plain: Option<Plain>,
}

/// An address without encodings, and the part of it before `?` and `#`.
#[derive(Debug)]
pub(crate) struct Plain {
    pub(crate) whole: String,
    pub(crate) path: String,
}

impl<'a> Address<'a> {
    pub(crate) fn new(written: &'a str) -> Self {
        let parsed = Url::parse(written).ok().map(|mut url| {
            // An address that takes no user has none.
            let _ = (url.set_username(""), url.set_password(None));
            url.to_string()
        });
        let mut forms = Vec::new();
        for spelling in [Some(written), parsed.as_deref()].into_iter().flatten() {
            let whole = folded(spelling);
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
        Self { written, forms, plain: Plain::new(written) }
    }

    /// Returns the spellings that a server may take for it.
    pub(crate) fn forms(&self) -> impl Iterator<Item = &str> {
        self.forms.iter().map(String::as_str)
    }

    /// Returns `true` if a server may take both addresses for the same.
    pub(crate) fn may_be(&self, other: &str) -> bool {
        let other = folded(other);
        let trimmed = other.trim_end_matches(['/', '.', ' ']);
        self.forms().any(|form| form == other || form == trimmed)
    }
}

impl Plain {
    fn new(written: &str) -> Option<Self> {
        let decoded = decoded(written);
        let leads_elsewhere = decoded.contains(|c: char| c.is_control() || c == '\\')
            || decoded.split(['/', '?', '#']).any(|part| matches!(part, "." | ".."));
        let whole = straightened(&decoded);
        let path = before_query(&whole).to_owned();
        (!leads_elsewhere).then_some(Self { whole, path })
    }
}

/// One spelling of an address, or of a pattern over addresses, for all that differ in case, encodings,
/// slashes and dots.
pub(crate) fn folded(text: &str) -> String {
    straightened(&decoded(text.trim())).to_lowercase()
}

/// One spelling of an address likewise, with the case that it has.
pub(crate) fn unencoded(text: &str) -> String {
    straightened(&decoded(text))
}

fn before_query(text: &str) -> &str {
    text.split(['?', '#']).next().unwrap_or_default()
}

/// Undoes percent encodings, also of what is encoded more than once.
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

/// Leaves out control characters, `.`, `..` with what is before it, and all but one of many slashes.
fn straightened(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    let text = text.replace('\\', "/");
    let mut kept: Vec<&str> = Vec::new();
    let mut last = "";
    for (place, part) in text.split('/').enumerate() {
        match part {
            _ if place == 0 => kept.push(part),
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
    fn spellings_that_a_server_may_take_for_the_same_are_the_same() {
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
            assert!(Address::new(other).may_be("file:///etc/passwd"), "{other:?}");
        }
        for other in ["file:///etc/passwd2", "file:///etc", "note:///etc/passwd"] {
            assert!(!Address::new(other).may_be("file:///etc/passwd"), "{other:?}");
        }
        let is = |one: &str, other: &str| Address::new(one).may_be(other);
        assert!(is("http://me:secret@EXAMPLE.com:80/a", "http://example.com/a"));
        assert!(is("http:\\\\example.com/a", "http://example.com/a"));
        assert!(is("http://ｅxample.com/a", "http://example.com/a"));
        assert!(is("note://a/../b", "note://b") && is("note://a/../b", "note://a/b"));
        assert!(is("plain%20name", "plain name") && is("%", "%") && is("%zz", "%ZZ"));
    }

    #[test]
    fn an_address_that_could_lead_elsewhere_is_not_plain() {
        for elsewhere in ["a:/b/../c", "a:/b/%2e%2e/c", "a:/b\\c", "a:/b%5Cc", "a:/b%00c", "a:/."] {
            assert!(Address::new(elsewhere).plain.is_none(), "{elsewhere}");
        }
        let plain = Address::new("a://My%20Docs/x?y=1").plain.unwrap();
        assert_eq!([&*plain.whole, &*plain.path], ["a:/My Docs/x?y=1", "a:/My Docs/x"]);
    }

    #[test]
    fn a_long_address_takes_no_long_time() {
        let nested = format!("a:/%{}", "25".repeat(300_000));
        assert!(Address::new(&nested).may_be("a:/%"));
        let deep = format!("a:/{}b", "x/../".repeat(200_000));
        assert!(Address::new(&deep).may_be("a:/b"));
    }
}
