//! Text normalized for matching, with the original offset of each byte.

use mcp_workbench_names::untrusted_text;

/// Text with single spaces, Latin letters instead of look-alikes, and no hidden characters or `*`.
#[derive(Debug, Default)]
pub(super) struct NormalizedText {
    pub(super) text: String,
    /// For each byte, the offset of its character in the original.
    places: Vec<usize>,
    end: usize,
}

impl NormalizedText {
    pub(super) fn new(original: &str) -> Self {
        let mut folded = Self {
            text: String::with_capacity(original.len()),
            places: Vec::new(),
            end: original.len(),
        };
        let mut word = 0;
        for (at, c) in original.char_indices() {
            if c.is_whitespace() {
                folded.undisguise(word);
                if !folded.text.ends_with(' ') {
                    folded.push(' ', at);
                }
                word = folded.text.len();
            } else if !untrusted_text::is_invisible(c) && c != '*' {
                folded.push(plain(c), at);
            }
        }
        folded.undisguise(word);
        folded
    }

    /// Returns the original offset of the character at a byte of the normalized text.
    pub(super) fn place(&self, at: usize) -> usize {
        self.places.get(at).copied().unwrap_or(self.end)
    }

    fn push(&mut self, c: char, at: usize) {
        self.text.push(c);
        self.places.resize(self.text.len(), at);
    }

    /// Replaces look-alikes in the word from byte `from` on, if it also has Latin letters.
    fn undisguise(&mut self, from: usize) {
        let Some(word) = self.text.get(from..) else { return };
        if word.is_ascii() || !word.contains(|c: char| c.is_ascii_alphabetic()) {
            return;
        }
        let word = word.to_owned();
        let places = self.places.split_off(from);
        self.text.truncate(from);
        for (at, c) in word.char_indices() {
            self.push(latin(c).unwrap_or(c), places.get(at).copied().unwrap_or(self.end));
        }
    }
}

/// Maps fullwidth and mathematical letters, and typographic quotes and hyphens, to ASCII.
fn plain(c: char) -> char {
    let number = u32::from(c);
    let ascii = match number {
        0xff01..=0xff5e => Some(number - 0xff01 + 0x21),
        0x1d400..=0x1d6a3 => {
            let letter = (number - 0x1d400) % 52;
            Some(if letter < 26 { letter + 0x41 } else { letter - 26 + 0x61 })
        }
        0x2018 | 0x2019 | 0x02bc => Some(0x27),
        0x201c | 0x201d => Some(0x22),
        0x2010..=0x2012 => Some(0x2d),
        _ => None,
    };
    ascii.and_then(char::from_u32).unwrap_or(c)
}

pub(super) fn latin(c: char) -> Option<char> {
    let at = DISGUISES.binary_search_by_key(&c, |(disguise, _)| *disguise).ok()?;
    DISGUISES.get(at).map(|(_, letter)| *letter)
}

/// Letters that look like Latin ones, sorted for binary search.
const DISGUISES: &[(char, char)] = &[
    ('Α', 'A'),
    ('Β', 'B'),
    ('Ε', 'E'),
    ('Ζ', 'Z'),
    ('Η', 'H'),
    ('Ι', 'I'),
    ('Κ', 'K'),
    ('Μ', 'M'),
    ('Ν', 'N'),
    ('Ο', 'O'),
    ('Ρ', 'P'),
    ('Τ', 'T'),
    ('Υ', 'Y'),
    ('Χ', 'X'),
    ('ν', 'v'),
    ('ο', 'o'),
    ('Ѕ', 'S'),
    ('І', 'I'),
    ('Ј', 'J'),
    ('А', 'A'),
    ('В', 'B'),
    ('Е', 'E'),
    ('К', 'K'),
    ('М', 'M'),
    ('Н', 'H'),
    ('О', 'O'),
    ('Р', 'P'),
    ('С', 'C'),
    ('Т', 'T'),
    ('У', 'Y'),
    ('Х', 'X'),
    ('а', 'a'),
    ('е', 'e'),
    ('о', 'o'),
    ('р', 'p'),
    ('с', 'c'),
    ('у', 'y'),
    ('х', 'x'),
    ('ѕ', 's'),
    ('і', 'i'),
    ('ј', 'j'),
    ('һ', 'h'),
    ('ԁ', 'd'),
    ('ԛ', 'q'),
    ('ԝ', 'w'),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disguises_are_in_order() {
        assert!(DISGUISES.is_sorted());
    }

    #[test]
    fn disguised_text_is_normalized_with_original_offsets() {
        let original = "Ｉg\u{200b}nоre \n\u{a0}  **all** \u{1d429}rior";
        let folded = NormalizedText::new(original);
        assert_eq!(folded.text, "Ignore all prior");
        let all = folded.text.find("all").unwrap();
        assert!(original[folded.place(all)..].starts_with("all"));
        assert_eq!(folded.place(folded.text.len()), original.len());
        assert_eq!(NormalizedText::new("Слово о").text, "Слово о");
    }
}
