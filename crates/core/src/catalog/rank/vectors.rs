//! Text embeddings from a compiled-in table of word vectors.
//!
//! `words.bin`, made by `scripts/embedding`, holds pieces of words in byte order, such as `file` or
//! `##s` for a continuation, each with a vector. A text's embedding is the sum over its pieces,
//! normalized.

use std::cmp::Ordering;
use std::ops::Range;

use foldhash::HashMap;

use crate::catalog::rank::quantization::{dot, quantize, scale};
use crate::catalog::rank::tokenizer::{identifiers, joined_identifier, parts};

static TABLE: &[u8] = include_bytes!("words.bin");

const DIMENSIONS: usize = 128;
/// The bytes of a vector in the table: half a byte per number.
const WIDTH: usize = DIMENSIONS / 2;
/// The half byte that represents 0; smaller ones are negative.
const ZERO: i8 = 8;
/// Maximum number of pieces read per text: a description starts with its subject.
const MAX_PIECES: usize = 48;
/// Marks a piece that continues a word.
const GOES_ON: &[u8] = b"##";

#[derive(Clone, Copy)]
struct WordVectorTable {
    count: usize,
    /// For each piece, the end of its name in `names`, as a little-endian `u32`.
    ends: &'static [u8],
    names: &'static [u8],
    scales: &'static [u8],
    numbers: &'static [u8],
}

impl WordVectorTable {
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

    /// Finds the piece whose name is the concatenation of `parts`.
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

    /// Adds the pieces of a word, longest match first, or none if part of the word has no piece.
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

fn number_at(bytes: &[u8], index: usize) -> usize {
    let bytes = &bytes[4 * index..4 * index + 4];
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize
}

/// Computes embeddings, and caches the pieces of each word.
pub(super) struct Embedder {
    table: WordVectorTable,
    words: HashMap<Box<str>, Range<usize>>,
    pieces: Vec<usize>,
}

impl Default for Embedder {
    fn default() -> Self {
        Self { table: WordVectorTable::open(), words: HashMap::default(), pieces: Vec::new() }
    }
}

impl Embedder {
    /// Returns the embedding of several texts read as one.
    pub(super) fn embed(&mut self, texts: &[&str]) -> TextEmbedding {
        let mut sum = TextSum::default();
        for text in texts {
            self.add(text, &mut sum);
        }
        sum.embedding()
    }

    /// Adds a text to a sum, unless the sum has its maximum of pieces.
    pub(super) fn add(&mut self, text: &str, sum: &mut TextSum) {
        let table = self.table;
        // Use the vector of `github` for `GitHub` if the table has it, and the vectors of its parts
        // otherwise.
        let known = |run| {
            joined_identifier(run).filter(|word| table.find([b"", word.as_bytes()]).is_some())
        };
        let words = identifiers(text).flat_map(|run| {
            let known = known(run);
            let parts = known.is_none().then(|| parts(run));
            known.into_iter().chain(parts.into_iter().flatten())
        });
        for word in words {
            if sum.left == 0 {
                break;
            }
            let pieces = self.pieces_of(&word);
            let counted = &self.pieces[pieces];
            for piece in &counted[..counted.len().min(sum.left)] {
                table.add_to(&mut sum.numbers, *piece);
            }
            sum.left = sum.left.saturating_sub(counted.len());
        }
    }

    /// Returns `true` if a word of the text consists of known pieces, with more than two bytes in
    /// the first.
    pub(super) fn knows_any(&mut self, text: &str) -> bool {
        let table = self.table;
        let mut words = identifiers(text).flat_map(|run| parts(run).chain(joined_identifier(run)));
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

/// The sum over the pieces of a text, with the number of pieces that it can still take.
pub(super) struct TextSum {
    numbers: [f32; DIMENSIONS],
    left: usize,
}

impl Default for TextSum {
    fn default() -> Self {
        Self { numbers: [0.0; DIMENSIONS], left: MAX_PIECES }
    }
}

impl TextSum {
    pub(super) fn embedding(&self) -> TextEmbedding {
        TextEmbedding::of(&self.numbers)
    }
}

/// A quantized vector of length 1, or 0.
#[derive(Debug)]
pub(super) struct TextEmbedding {
    numbers: [i8; DIMENSIONS],
    /// The factor that normalizes the length to 1.
    scale: f32,
}

impl TextEmbedding {
    fn of(vector: &[f32; DIMENSIONS]) -> Self {
        let mut numbers = [0; DIMENSIONS];
        numbers.iter_mut().zip(quantize(vector)).for_each(|(number, small)| *number = small);
        Self { numbers, scale: scale(&numbers) }
    }

    /// Returns the cosine similarity: 1 for the same meaning, 0 for unrelated texts.
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
        let table = WordVectorTable::open();
        let mut pieces = Vec::new();
        table.add_pieces(word, &mut pieces);
        pieces.into_iter().map(|piece| std::str::from_utf8(table.name(piece)).unwrap()).collect()
    }

    fn cosine(a: &str, b: &str) -> f32 {
        let mut reader = Embedder::default();
        reader.embed(&[a]).cosine(&reader.embed(&[b]))
    }

    #[test]
    fn table_is_complete_and_sorted() {
        let table = WordVectorTable::open();
        assert_eq!(table.numbers.len(), table.count * WIDTH);
        assert!((1..table.count).all(|piece| table.name(piece - 1) < table.name(piece)));
    }

    #[test]
    fn words_are_split_into_the_longest_pieces() {
        assert_eq!(pieces("file"), ["file"]);
        assert_eq!(pieces("webhook"), ["web", "##ho", "##ok"]);
        assert_eq!(pieces("größe"), [""; 0]);
        assert_eq!(pieces(""), [""; 0]);
    }

    #[test]
    fn similar_texts_have_similar_embeddings() {
        assert!((cosine("delete the file", "delete the file") - 1.0).abs() < 1e-3);
        assert!(
            cosine("erase a document", "delete a file") > cosine("erase a document", "play music")
        );
        assert!(cosine("", "delete").abs() < f32::EPSILON);
    }

    #[test]
    fn long_text_is_truncated() {
        let long = "file ".repeat(MAX_PIECES);
        assert!((cosine(&long, &format!("{long} music music music")) - 1.0).abs() < 1e-3);
    }

    proptest! {
        #[test]
        fn similarity_of_any_texts_is_bounded(a in "\\PC{0,60}", b in "[a-z0-9 ]{0,60}") {
            prop_assert!((-1.01..=1.01).contains(&cosine(&a, &b)));
        }
    }
}
