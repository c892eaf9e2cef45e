//! Names as files are called: what a file cannot be called is written with `%` and two digits.

/// The name that a file or folder stands for; none if that is no text.
pub(super) fn decode(file: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(file.len());
    let mut rest = file.as_bytes();
    while let [first, after @ ..] = rest {
        let code = (*first == b'%').then(|| after.split_at_checked(2)).flatten();
        let code = code.and_then(|(digits, after)| Some((hexadecimal(digits)?, after)));
        let (byte, left) = code.unwrap_or((*first, after));
        bytes.push(byte);
        rest = left;
    }
    String::from_utf8(bytes).ok()
}

fn hexadecimal(digits: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(digits).ok()?;
    let is_code = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_code.then(|| u8::from_str_radix(digits, 16).ok())?
}

/// What a file or folder is called that stands for this name.
pub fn encode(name: &str) -> String {
    let mut file = String::with_capacity(name.len());
    for (at, c) in name.char_indices() {
        let is_marked = at == 0 && matches!(c, '_' | '.' | ' ' | '-');
        let is_last = at + c.len_utf8() == name.len() && matches!(c, ' ' | '.');
        let is_refused = matches!(c, '%' | '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|')
            || c.is_control();
        if is_marked || is_last || is_refused {
            let mut buffer = [0; 4];
            let bytes = c.encode_utf8(&mut buffer).bytes();
            file.extend(bytes.map(|byte| format!("%{byte:02X}")));
        } else {
            file.push(c);
        }
    }
    file
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn every_name_can_be_that_of_a_file_and_is_read_back() {
        for (name, file) in [
            ("send_message", "send_message"),
            ("notes/list", "notes%2Flist"),
            ("../../x", "%2E.%2F..%2Fx"),
            ("_config", "%5Fconfig"),
            ("a.b-c d", "a.b-c d"),
            ("100%", "100%25"),
            ("%41", "%2541"),
            ("größe", "größe"),
            ("a\u{7}", "a%07"),
            (".", "%2E"),
        ] {
            assert_eq!((encode(name), decode(file)), (file.to_owned(), Some(name.to_owned())));
        }
        assert_eq!(decode("a%zz%4"), Some("a%zz%4".to_owned()), "what is no code means itself");
        assert_eq!(decode("%FF"), None);
    }
}
