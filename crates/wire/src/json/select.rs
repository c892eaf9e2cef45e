//! Selection of fields: JSON pointers (RFC 6901), where the token `*` stands for every element of an
//! array and every member of an object.
//!
//! A selection keeps the objects and arrays around the selected values, so the values of a row stay
//! together. It copies values byte for byte and is never longer than the document. All pointers are
//! followed in one pass over the text; the longest pointer limits the recursion.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use crate::json::scan::{self, Cursor, EscapedKey, StringHint};

/// Maximum number of pointers in a selection.
pub const MAX_POINTERS: usize = 32;
/// Maximum length of a pointer in bytes. Limits the recursion.
const MAX_POINTER_BYTES: usize = 256;
/// Maximum number of reported pointers without a match.
pub const MAX_MISSING: usize = 5;
/// Characters of a pointer that an error repeats.
const MAX_SHOWN: usize = 60;

type Scanned<T> = Result<T, scan::JsonSyntaxError>;

/// The fields to select from a JSON document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    pointers: Vec<Pointer>,
    /// The tree of all pointers; the first node is the whole document.
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pointer {
    text: String,
    tokens: Vec<Token>,
    /// Its last token in the tree.
    end: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Name {
        name: String,
        /// The position in an array, if the name is one.
        index: Option<usize>,
    },
    Every,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    children: Vec<(Token, usize)>,
    /// `true` if a pointer ends here.
    is_end: bool,
}

/// The selected part of a document.
#[derive(Debug, PartialEq, Eq)]
pub struct SelectedFields {
    /// The document with only the selected fields; `None` if it has none of them.
    pub json: Option<String>,
    /// For each pointer, `true` if it matched.
    pub is_matched: Vec<bool>,
}

/// A pointer that matched nothing, and the nearest value on its way.
#[derive(Debug, PartialEq, Eq)]
pub struct MissingField<'a> {
    pub pointer: &'a str,
    /// The longest part of the pointer that leads to a value.
    pub nearest: &'a str,
    pub found: FoundValue,
}

#[derive(Debug, PartialEq, Eq)]
pub enum FoundValue {
    /// The first keys of an object as JSON strings, and how many more there are.
    Keys(Vec<String>, usize),
    /// The number of elements of an array.
    Elements(usize),
    Scalar,
}

/// Why a text isn't a pointer, or the pointers aren't a selection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PointerError {
    #[error("`{0}` is not a JSON pointer: it must start with `/`, as in `/items/*/title`")]
    NoSlash(String),
    #[error("`{0}` is not a JSON pointer: write `~` as `~0`, and `/` in a name as `~1`")]
    InvalidEscape(String),
    #[error("`{0}…` is longer than {MAX_POINTER_BYTES} bytes")]
    TooLong(String),
    #[error("more than {MAX_POINTERS} JSON pointers")]
    TooMany,
}

impl Selection {
    /// Parses the pointers. An empty selection and the empty pointer select the whole document.
    ///
    /// # Errors
    ///
    /// Returns an error for a malformed pointer, or if there are too many.
    pub fn parse<'a>(pointers: impl IntoIterator<Item = &'a str>) -> Result<Self, PointerError> {
        let mut selection = Self { pointers: Vec::new(), nodes: vec![Node::default()] };
        for pointer in pointers {
            if selection.pointers.len() == MAX_POINTERS {
                return Err(PointerError::TooMany);
            }
            let tokens = tokens(pointer)?;
            let end = tokens.iter().fold(0, |node, token| selection.child(node, token));
            selection.nodes[end].is_end = true;
            selection.pointers.push(Pointer { text: pointer.to_owned(), tokens, end });
        }
        selection.nodes[0].is_end |= selection.pointers.is_empty();
        Ok(selection)
    }

    /// Returns the node of `token` below `node`, which is added if necessary.
    fn child(&mut self, node: usize, token: &Token) -> usize {
        let known = self.nodes[node].children.iter().find(|(known, _)| known == token);
        if let Some((_, child)) = known {
            return *child;
        }
        let child = self.nodes.len();
        self.nodes.push(Node::default());
        self.nodes[node].children.push((token.clone(), child));
        child
    }

    /// Returns `true` if the whole document is selected.
    pub fn is_whole(&self) -> bool {
        self.nodes[0].is_end
    }

    /// Selects from a JSON object or array; `None` if `document` is neither.
    pub fn select_from(&self, document: &str) -> Option<SelectedFields> {
        let document = container_text(document)?;
        let mut pass = SelectionPass {
            nodes: &self.nodes,
            text: document.as_bytes(),
            selected: Vec::new(),
            is_matched: vec![false; self.nodes.len()],
        };
        let (end, is_found) = pass.value(0, &[0], true).ok()?;
        if end != document.len() {
            return None;
        }
        let SelectionPass { selected, is_matched, .. } = pass;
        let json = if is_found { Some(String::from_utf8(selected).ok()?) } else { None };
        let is_matched = self.pointers.iter().map(|pointer| is_matched[pointer.end]).collect();
        Some(SelectedFields { json, is_matched })
    }

    /// Returns the first pointers without a match, up to [`MAX_MISSING`], and how many more there
    /// are. `document` is a text that [`Self::select_from`] accepted.
    pub fn missing_in(
        &self,
        document: &str,
        is_matched: &[bool],
    ) -> (Vec<MissingField<'_>>, usize) {
        let text = container_text(document).unwrap_or_default().as_bytes();
        let pointers = self.pointers.iter().zip(is_matched);
        let missing = pointers.filter(|(_, is_matched)| !**is_matched).map(|(pointer, _)| pointer);
        let fields = missing.clone().take(MAX_MISSING);
        let fields: Vec<_> = fields.filter_map(|pointer| pointer.missing_in(text).ok()).collect();
        let more = missing.count() - fields.len();
        (fields, more)
    }
}

/// Returns the object or array in `document`, without a byte order mark and white space around it.
fn container_text(document: &str) -> Option<&str> {
    let text = document.strip_prefix('\u{feff}').unwrap_or(document);
    let text = text.trim_matches([' ', '\t', '\r', '\n']);
    text.starts_with(['{', '[']).then_some(text)
}

/// Splits a pointer at its slashes and decodes its tokens.
fn tokens(pointer: &str) -> Result<Vec<Token>, PointerError> {
    let shown = || pointer.chars().take(MAX_SHOWN).collect::<String>();
    if pointer.len() > MAX_POINTER_BYTES {
        return Err(PointerError::TooLong(shown()));
    }
    if pointer.is_empty() {
        return Ok(Vec::new());
    }
    let rest = pointer.strip_prefix('/').ok_or_else(|| PointerError::NoSlash(shown()))?;
    let token = |escaped: &str| {
        if escaped == "*" {
            return Ok(Token::Every);
        }
        let is_valid = escaped.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
        if !is_valid {
            return Err(PointerError::InvalidEscape(shown()));
        }
        let name = escaped.replace("~1", "/").replace("~0", "~");
        let is_index =
            name == "0" || !name.starts_with('0') && name.bytes().all(|byte| byte.is_ascii_digit());
        let index = if is_index { name.parse().ok() } else { None };
        Ok(Token::Name { name, index })
    };
    rest.split('/').map(token).collect()
}

/// The place of a value in its object or array.
enum Place<'a> {
    /// The key; `None` if it has an unpaired surrogate, so only `*` selects it.
    Member(Option<Cow<'a, [u8]>>),
    Element(usize),
}

impl Token {
    fn selects(&self, place: &Place<'_>) -> bool {
        match (self, place) {
            (Self::Every, _) => true,
            (Self::Name { name, .. }, Place::Member(Some(key))) => **key == *name.as_bytes(),
            (Self::Name { .. }, Place::Member(None)) => false,
            (Self::Name { index, .. }, Place::Element(at)) => *index == Some(*at),
        }
    }
}

/// One pass over a document.
struct SelectionPass<'a> {
    nodes: &'a [Node],
    text: &'a [u8],
    selected: Vec<u8>,
    /// For each node, `true` if a pointer that ends there has matched.
    is_matched: Vec<bool>,
}

impl SelectionPass<'_> {
    /// Copies what `active` nodes select from the value at `at`. Returns the end of the value, and
    /// whether anything was selected. Without `is_writing`, only records the matches.
    fn value(&mut self, at: usize, active: &[usize], is_writing: bool) -> Scanned<(usize, bool)> {
        let (mut is_whole, mut has_children) = (false, false);
        for node in active {
            is_whole |= self.nodes[*node].is_end;
            has_children |= !self.nodes[*node].children.is_empty();
            self.is_matched[*node] |= self.nodes[*node].is_end;
        }
        let before = self.selected.len();
        let (end, is_found) = if has_children && is_container(self.text, at) {
            self.container(at, active, is_writing && !is_whole)?
        } else {
            (scan::skip_value(self.text, at, StringHint::Any)?, false)
        };
        if is_whole && is_writing {
            self.selected.extend_from_slice(&self.text[at..end]);
        } else if !is_whole && !is_found {
            self.selected.truncate(before);
        }
        Ok((end, is_whole || is_found))
    }

    fn container(
        &mut self,
        at: usize,
        active: &[usize],
        is_writing: bool,
    ) -> Scanned<(usize, bool)> {
        let is_object = self.text[at] == b'{';
        let mut cursor = cursor(self.text, at)?;
        let (mut is_found, mut count) = (false, 0);
        let mut inner = Vec::new();
        self.write(is_writing, if is_object { b"{" } else { b"[" });
        while let Some(key) = cursor.advance()? {
            let place =
                if is_object { Place::Member(key.unescaped()) } else { Place::Element(count) };
            inner.clear();
            let nodes = self.nodes;
            let children = active.iter().flat_map(|node| &nodes[*node].children);
            inner.extend(
                children.filter(|(token, _)| token.selects(&place)).map(|(_, child)| *child),
            );
            count += 1;
            if inner.is_empty() {
                cursor.pass()?;
                continue;
            }
            let before = self.selected.len();
            self.write(is_writing && is_found, b",");
            if is_object {
                self.write_key(is_writing, key);
            }
            let (end, is_selected) = self.value(cursor.at(), &inner, is_writing)?;
            cursor.pass_to(end);
            if is_selected {
                is_found = true;
            } else {
                self.selected.truncate(before);
            }
        }
        self.write(is_writing, if is_object { b"}" } else { b"]" });
        if count == 0 {
            is_found = self.find_in_empty(active);
        }
        Ok((cursor.at(), is_found))
    }

    /// `*` matches an empty array or object: all of its elements are selected. Returns `true` if
    /// one of the nodes has a `*`.
    fn find_in_empty(&mut self, active: &[usize]) -> bool {
        let nodes = self.nodes;
        let children = |node: &usize| nodes[*node].children.iter();
        let every = active.iter().flat_map(children).filter(|(token, _)| *token == Token::Every);
        let mut below: Vec<usize> = every.map(|(_, child)| *child).collect();
        let is_found = !below.is_empty();
        while let Some(node) = below.pop() {
            self.is_matched[node] = true;
            below.extend(children(&node).map(|(_, child)| child));
        }
        is_found
    }

    fn write(&mut self, is_writing: bool, text: &[u8]) {
        if is_writing {
            self.selected.extend_from_slice(text);
        }
    }

    fn write_key(&mut self, is_writing: bool, key: EscapedKey<'_>) {
        let place = key.place_in(self.text);
        for part in [b"\"", &self.text[place], b"\":"] {
            self.write(is_writing, part);
        }
    }
}

fn is_container(text: &[u8], at: usize) -> bool {
    matches!(text.get(at), Some(b'{' | b'['))
}

/// Enters the object or array at `at`.
fn cursor(text: &[u8], at: usize) -> Scanned<Cursor<'_>> {
    match text.get(at) {
        Some(b'{') => Cursor::in_object(text, at, StringHint::Any),
        _ => Cursor::in_array(text, at, StringHint::Any),
    }
}

impl Pointer {
    /// Follows the pointer as far as possible, with the first element for `*`.
    fn missing_in(&self, text: &[u8]) -> Scanned<MissingField<'_>> {
        let (mut at, mut depth) = (0, 0);
        for token in &self.tokens {
            let Some(inside) = step(text, at, token)? else { break };
            at = inside;
            depth += 1;
        }
        let slash = self.text.match_indices('/').nth(depth);
        let nearest = slash.map_or(&*self.text, |(slash, _)| &self.text[..slash]);
        Ok(MissingField { pointer: &self.text, nearest, found: FoundValue::at(text, at)? })
    }
}

/// Returns the place of the first value that `token` selects in the value at `at`.
fn step(text: &[u8], at: usize, token: &Token) -> Scanned<Option<usize>> {
    if !is_container(text, at) {
        return Ok(None);
    }
    let is_object = text[at] == b'{';
    let mut values = cursor(text, at)?;
    let mut index = 0;
    while let Some(key) = values.advance()? {
        let place = if is_object { Place::Member(key.unescaped()) } else { Place::Element(index) };
        if token.selects(&place) {
            return Ok(Some(values.at()));
        }
        values.pass()?;
        index += 1;
    }
    Ok(None)
}

impl FoundValue {
    /// Keys of an object that are reported.
    const MAX_KEYS: usize = 16;
    /// Bytes of a key that is reported.
    const MAX_KEY_BYTES: usize = 48;

    fn at(text: &[u8], at: usize) -> Scanned<Self> {
        if !is_container(text, at) {
            return Ok(Self::Scalar);
        }
        let is_object = text[at] == b'{';
        let mut values = cursor(text, at)?;
        let (mut keys, mut count) = (Vec::new(), 0);
        while let Some(key) = values.advance()? {
            count += 1;
            if is_object && keys.len() < Self::MAX_KEYS {
                let key = &text[key.place_in(text)];
                if key.len() <= Self::MAX_KEY_BYTES {
                    keys.push(format!("\"{}\"", String::from_utf8_lossy(key)));
                }
            }
            values.pass()?;
        }
        let more = count - keys.len();
        Ok(if is_object { Self::Keys(keys, more) } else { Self::Elements(count) })
    }
}

impl fmt::Display for MissingField<'_> {
    /// Writes the pointer and the nearest value: `/a/x` (`/a` has "b", "c").
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` (", self.pointer)?;
        if self.nearest.is_empty() {
            f.write_str("the result ")?;
        } else {
            write!(f, "`{}` ", self.nearest)?;
        }
        match &self.found {
            FoundValue::Keys(keys, 0) if keys.is_empty() => f.write_str("is empty")?,
            FoundValue::Keys(keys, more) if keys.is_empty() => write!(f, "has {more} members")?,
            FoundValue::Keys(keys, 0) => write!(f, "has {}", keys.join(", "))?,
            FoundValue::Keys(keys, more) => write!(f, "has {}, and {more} more", keys.join(", "))?,
            FoundValue::Elements(count) => write!(f, "is an array of {count}")?,
            FoundValue::Scalar => f.write_str("has no members")?,
        }
        f.write_str(")")
    }
}
