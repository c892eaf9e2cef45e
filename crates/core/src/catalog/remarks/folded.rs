//! Text without disguises, each of whose bytes knows where it stood.

use crate::name::seen;

/// A text in which white space is one space, hidden characters are left out, and letters that look like
/// Latin ones are those.
#[derive(Debug, Default)]
pub(super) struct Folded {
    pub(super) text: String,
    /// For each byte, the byte of the original at which its character begins.
    places: Vec<usize>,
    /// The length of the original.
    end: usize,
}

impl Folded {
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
            } else if !seen::is_unseen(c) && c != '*' {
                folded.push(plain(c), at);
            }
        }
        folded.undisguise(word);
        folded
    }

    /// Returns the byte of the original at which the character of a byte of the folded text begins.
    pub(super) fn place(&self, at: usize) -> usize {
        self.places.get(at).copied().unwrap_or(self.end)
    }

    fn push(&mut self, c: char, at: usize) {
        self.text.push(c);
        self.places.resize(self.text.len(), at);
    }

    /// Writes the word that begins at byte `from` in Latin letters alone, if it has any.
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

/// Returns the character without the form that it has in mathematics or beside Chinese characters.
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

/// Returns the Latin letter that a Cyrillic or Greek one cannot be told from.
pub(super) fn latin(c: char) -> Option<char> {
    let at = DISGUISES.binary_search_by_key(&c, |(disguise, _)| *disguise).ok()?;
    DISGUISES.get(at).map(|(_, letter)| *letter)
}

/// The letters that cannot be told from Latin ones, in order.
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
    fn a_disguised_text_is_plain_and_each_byte_knows_its_place() {
        let original = "Ｉg\u{200b}nоre \n\u{a0}  **all** \u{1d429}rior";
        let folded = Folded::new(original);
        assert_eq!(folded.text, "Ignore all prior");
        let all = folded.text.find("all").unwrap();
        assert!(original[folded.place(all)..].starts_with("all"));
        assert_eq!(folded.place(folded.text.len()), original.len());
        assert_eq!(Folded::new("Слово о").text, "Слово о");
    }
}
