//! Meaning: the direction in which the words of a text point, by a table of word vectors.
//!
//! `words.bin` is made by `scripts/embedding`: pieces of words in order of their bytes, such as
//! `file` or `##s` for one that goes on a word, and a vector for each. A text points where the sum
//! over its pieces does.

use std::cmp::Ordering;
use std::ops::Range;

use foldhash::HashMap;

use crate::catalog::rank::numbers::{dot, scale, small};
use crate::catalog::rank::text::{parts, runs, whole};

static TABLE: &[u8] = include_bytes!("words.bin");

/// How many numbers a vector has.
const DIMENSIONS: usize = 128;
/// How many bytes they take in the table: half a byte each.
const WIDTH: usize = DIMENSIONS / 2;
/// The half byte that is zero; those below it are negative.
const ZERO: i8 = 8;
/// The most pieces of a text that count: what a description is about, it says first.
const MAX_PIECES: usize = 48;
/// The mark before a piece that continues a word.
const GOES_ON: &[u8] = b"##";

/// The parts of the table, as they stand in it.
#[derive(Clone, Copy)]
struct Table {
    count: usize,
    /// For each piece, where its name ends; four bytes each, as everything that is not a byte.
    ends: &'static [u8],
    names: &'static [u8],
    scales: &'static [u8],
    numbers: &'static [u8],
}

impl Table {
    fn open() -> Self {
        let count = number_at(TABLE, 0);
        let (ends, rest) = TABLE[4..].split_at(4 * count);
        let (names, rest) = rest.split_at(number_at(ends, count - 1));
        let (scales, numbers) = rest.split_at(4 * count);
        Self { count, ends, names, scales, numbers }
    }

    fn name(&self, piece: usize) -> &'static [u8] {
        let start = if piece == 0 { 0 } else { number_at(self.ends, piece - 1) };
        &self.names[start..number_at(self.ends, piece)]
    }

    /// The piece whose name is that of `parts`, one after the other.
    fn find(&self, parts: [&[u8]; 2]) -> Option<usize> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            match self.name(middle).iter().cmp(parts.iter().copied().flatten()) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Some(middle),
            }
        }
        None
    }

    /// Adds the pieces of a word, always the longest that there is; none of them where something
    /// is left over.
    fn add_pieces(&self, word: &str, pieces: &mut Vec<usize>) {
        let known = pieces.len();
        let mut rest = word.as_bytes();
        while !rest.is_empty() {
            let mark = if rest.len() == word.len() { b"" } else { GOES_ON };
            let longest = (1..=rest.len()).rev();
            let mut found = longest.map(|end| (end, self.find([mark, &rest[..end]])));
            let Some((end, Some(piece))) = found.find(|(_, piece)| piece.is_some()) else {
                pieces.truncate(known);
                return;
            };
            pieces.push(piece);
            rest = &rest[end..];
        }
    }

    /// Adds the vector of a piece.
    fn add_to(&self, sum: &mut [f32; DIMENSIONS], piece: usize) {
        let bits = &self.scales[4 * piece..4 * piece + 4];
        let scale = f32::from_le_bytes([bits[0], bits[1], bits[2], bits[3]]);
        let numbers = &self.numbers[WIDTH * piece..WIDTH * (piece + 1)];
        let (pairs, _) = sum.as_chunks_mut();
        for ([even, odd], byte) in pairs.iter_mut().zip(numbers) {
            let number = |half: u8| f32::from(half.cast_signed() - ZERO);
            *even += scale * number(byte & 0xf);
            *odd += scale * number(byte >> 4);
        }
    }
}

/// The number that is written at byte `index * 4`.
fn number_at(bytes: &[u8], index: usize) -> usize {
    let bytes = &bytes[4 * index..4 * index + 4];
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize
}

/// Reads texts, and remembers their words.
pub(super) struct Reader {
    table: Table,
    /// For each word which of `pieces` are its own.
    words: HashMap<Box<str>, Range<usize>>,
    pieces: Vec<usize>,
}

impl Default for Reader {
    fn default() -> Self {
        Self { table: Table::open(), words: HashMap::default(), pieces: Vec::new() }
    }
}

impl Reader {
    /// Where texts point that are read as one.
    pub(super) fn direction(&mut self, texts: &[&str]) -> Direction {
        let mut sum = [0.0; DIMENSIONS];
        let mut left = MAX_PIECES;
        let table = self.table;
        // `GitHub` means what `github` does, where that is known, and else what its parts do.
        let known = |run| whole(run).filter(|word| table.find([b"", word.as_bytes()]).is_some());
        let words = texts.iter().flat_map(|text| runs(text)).flat_map(|run| {
            let known = known(run);
            let parts = known.is_none().then(|| parts(run));
            known.into_iter().chain(parts.into_iter().flatten())
        });
        for word in words {
            let pieces = self.pieces_of(&word);
            let counted = &self.pieces[pieces];
            for piece in &counted[..counted.len().min(left)] {
                self.table.add_to(&mut sum, *piece);
            }
            left = left.saturating_sub(counted.len());
            if left == 0 {
                break;
            }
        }
        Direction::of(&sum)
    }

    /// Tells whether any word of a text is in the table, or begins with a piece that is more than two
    /// letters.
    pub(super) fn knows_any(&mut self, text: &str) -> bool {
        let table = self.table;
        let mut words = runs(text).flat_map(|run| parts(run).chain(whole(run)));
        words.any(|word| {
            let pieces = self.pieces_of(&word);
            self.pieces[pieces].first().is_some_and(|first| table.name(*first).len() > 2)
        })
    }

    fn pieces_of(&mut self, word: &str) -> Range<usize> {
        if let Some(known) = self.words.get(word) {
            return known.clone();
        }
        let start = self.pieces.len();
        self.table.add_pieces(word, &mut self.pieces);
        let pieces = start..self.pieces.len();
        self.words.insert(Box::from(word), pieces.clone());
        pieces
    }
}

/// A vector of length 1, or of none, in small numbers.
#[derive(Debug)]
pub(super) struct Direction {
    numbers: [i8; DIMENSIONS],
    /// The factor for each of them.
    scale: f32,
}

impl Direction {
    fn of(vector: &[f32; DIMENSIONS]) -> Self {
        let mut numbers = [0; DIMENSIONS];
        numbers.iter_mut().zip(small(vector)).for_each(|(number, small)| *number = small);
        Self { numbers, scale: scale(&numbers) }
    }

    /// How near two directions are: 1 if they are the same, 0 if they have nothing in common.
    pub(super) fn cosine(&self, other: &Self) -> f32 {
        dot(&self.numbers, &other.numbers) * self.scale * other.scale
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::{prop_assert, proptest};

    use super::*;

    fn pieces(word: &str) -> Vec<&'static str> {
        let table = Table::open();
        let mut pieces = Vec::new();
        table.add_pieces(word, &mut pieces);
        pieces.into_iter().map(|piece| std::str::from_utf8(table.name(piece)).unwrap()).collect()
    }

    fn cosine(a: &str, b: &str) -> f32 {
        let mut reader = Reader::default();
        reader.direction(&[a]).cosine(&reader.direction(&[b]))
    }

    #[test]
    fn the_table_is_whole_and_in_order() {
        let table = Table::open();
        assert_eq!(table.numbers.len(), table.count * WIDTH);
        assert!((1..table.count).all(|piece| table.name(piece - 1) < table.name(piece)));
    }

    #[test]
    fn words_are_put_together_of_the_longest_pieces() {
        assert_eq!(pieces("file"), ["file"]);
        assert_eq!(pieces("webhook"), ["web", "##ho", "##ok"]);
        assert_eq!(pieces("größe"), [""; 0]);
        assert_eq!(pieces(""), [""; 0]);
    }

    #[test]
    fn what_means_the_same_points_the_same_way() {
        assert!((cosine("delete the file", "delete the file") - 1.0).abs() < 1e-3);
        assert!(
            cosine("erase a document", "delete a file") > cosine("erase a document", "play music")
        );
        assert!(cosine("", "delete").abs() < f32::EPSILON);
    }

    #[test]
    fn the_end_of_a_long_text_does_not_count() {
        let long = "file ".repeat(MAX_PIECES);
        assert!((cosine(&long, &format!("{long} music music music")) - 1.0).abs() < 1e-3);
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(a in "\\PC{0,60}", b in "[a-z0-9 ]{0,60}") {
            prop_assert!((-1.01..=1.01).contains(&cosine(&a, &b)));
        }
    }
}
