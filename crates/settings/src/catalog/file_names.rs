//! Percent-encoding of arbitrary names as portable file names.

use std::collections::HashSet;

/// Maximum length of a file name in bytes, without its extension.
const LONGEST: usize = 250;

/// Decodes the name of a file or folder. `None` if the result isn't UTF-8, is blank or contains
/// control characters.
pub fn decode(file: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(file.len());
    let mut rest = file.as_bytes();
    while let [first, after @ ..] = rest {
        let code = (*first == b'%').then(|| after.split_at_checked(2)).flatten();
        let code = code.and_then(|(digits, after)| Some((hexadecimal(digits)?, after)));
        let (byte, left) = code.unwrap_or((*first, after));
        bytes.push(byte);
        rest = left;
    }
    let name = String::from_utf8(bytes).ok()?;
    let is_name = !name.trim().is_empty() && !name.chars().any(char::is_control);
    is_name.then_some(name)
}

fn hexadecimal(digits: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(digits).ok()?;
    let is_code = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_code.then(|| u8::from_str_radix(digits, 16).ok())?
}

/// Encodes a name as the name of a file or folder.
pub fn encode(name: &str) -> String {
    encode_with(name, |at, _| at == 0 && is_device(name))
}

/// Like [`encode`], but also encodes the characters selected by `is_marked`.
fn encode_with(name: &str, is_marked: impl Fn(usize, char) -> bool) -> String {
    let mut file = String::with_capacity(name.len());
    for (at, c) in name.char_indices() {
        let is_first = at == 0 && matches!(c, '_' | '.' | ' ' | '-');
        let is_last = at + c.len_utf8() == name.len() && matches!(c, ' ' | '.');
        let is_refused = matches!(c, '%' | '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|')
            || c.is_control();
        if is_first || is_last || is_refused || is_marked(at, c) {
            let mut buffer = [0; 4];
            let bytes = c.encode_utf8(&mut buffer).bytes();
            file.extend(bytes.map(|byte| format!("%{byte:02X}")));
        } else {
            file.push(c);
        }
    }
    file
}

/// Returns `true` if Windows reserves the name for a device. The extension doesn't matter.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name).trim_end();
    let is = |device: &&str| stem.eq_ignore_ascii_case(device);
    let is_port = |device: &&str| {
        let (name, number) = stem.split_at_checked(3).unwrap_or_default();
        name.eq_ignore_ascii_case(device) && matches!(number.as_bytes(), [b'1'..=b'9'])
    };
    ["con", "prn", "aux", "nul"].iter().any(is) || ["com", "lpt"].iter().any(is_port)
}

/// Allocates file names in one folder. They are unique even on a case-insensitive file system.
#[derive(Debug, Default)]
pub struct FileNameAllocator {
    /// Allocated names, in lower case.
    taken: HashSet<String>,
}

impl FileNameAllocator {
    /// Allocates the file name of `name`. `None` if no file name can be decoded to `name`.
    pub fn take(&mut self, name: &str) -> Option<String> {
        let spellings = [
            encode(name),
            encode_with(name, |_, c| c.is_uppercase()),
            encode_with(name, |at, _| at == 0),
        ];
        let file = spellings.into_iter().find(|file| {
            file.len() <= LONGEST
                && decode(file).as_deref() == Some(name)
                && !self.taken.contains(&file.to_lowercase())
        })?;
        self.taken.insert(file.to_lowercase());
        Some(file)
    }
}

/// Returns the usual file name of a tool.
pub fn usual(tool: &str) -> String {
    format!("{}.yaml", encode(tool))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn names_round_trip_through_file_names() {
        for (name, file) in [
            ("send_message", "send_message"),
            ("notes/list", "notes%2Flist"),
            ("../../x", "%2E.%2F..%2Fx"),
            ("_config", "%5Fconfig"),
            ("a.b-c d", "a.b-c d"),
            ("100%", "100%25"),
            ("%41", "%2541"),
            ("größe", "größe"),
            (".", "%2E"),
            ("aux", "%61ux"),
            ("Com1.x", "%43om1.x"),
            ("comment", "comment"),
        ] {
            assert_eq!((encode(name), decode(file)), (file.to_owned(), Some(name.to_owned())));
            assert_eq!(FileNameAllocator::default().take(name).as_deref(), Some(file));
        }
        assert_eq!(decode("a%zz%4"), Some("a%zz%4".to_owned()), "what is no code means itself");
        assert_eq!(decode("%FF"), None);
    }

    #[test]
    fn unencodable_names_get_no_file_name() {
        for name in ["", " ", "a\u{7}b", "\n", &"x".repeat(251), &"/".repeat(84)] {
            assert_eq!(FileNameAllocator::default().take(name), None, "{name:?}");
        }
    }

    #[test]
    fn names_differing_only_in_case_get_distinct_files() {
        for names in [["send", "Send", "SEND", "sEnd"], ["SEND", "Send", "sEnd", "send"]] {
            let mut taken = FileNameAllocator::default();
            let files = names.map(|name| taken.take(name).unwrap());
            let folded: HashSet<_> = files.iter().map(|file| file.to_lowercase()).collect();
            assert_eq!(folded.len(), names.len(), "{files:?}");
            assert_eq!(files.map(|file| decode(&file).unwrap()), names);
        }
        assert_eq!(FileNameAllocator::default().take("Send").as_deref(), Some("Send"));
    }
}
