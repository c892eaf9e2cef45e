//! Sources as text: where they are, and which part of them is code, comment or test.

use std::fs;
use std::path::{Path, PathBuf};

use pretty_assertions::assert_eq;

/// The crate that tells platforms apart.
pub(super) const OS: &str = "crates/os/";

/// One file of the repository.
pub(super) struct Source {
    /// From the root of the repository, with `/`.
    pub(super) path: String,
    pub(super) text: String,
}

impl Source {
    pub(super) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// Returns `true` if all of it is tests.
    pub(super) fn is_test(&self) -> bool {
        self.path.starts_with("tests/")
            || self.path.contains("/tests/")
            || self.path.ends_with("/tests.rs")
    }

    /// The path as it is in its crate: `src/a.rs` for `crates/x/src/a.rs` too.
    pub(super) fn inside(&self) -> &str {
        let rest = self.path.strip_prefix("crates/").and_then(|rest| rest.split_once('/'));
        rest.map_or(&self.path, |(_, inside)| inside)
    }

    /// The crate that the file belongs to; none for the program's own.
    pub(super) fn of_crate(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    /// The code of the program: no comments, no text in quotes, no tests.
    pub(super) fn program(&self) -> String {
        without_tests(&split(&self.text).code)
    }
}

/// The root of the repository.
pub(super) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file of the repository.
pub(super) fn read(path: &str) -> String {
    fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All files under `folder` with this extension, in order.
pub(super) fn files(folder: &str, extension: &str) -> Vec<Source> {
    let mut found = Vec::new();
    collect(&repository().join(folder), extension, &mut found);
    found.sort();
    assert!(!found.is_empty(), "no .{extension} in {folder}");
    let relative = found.iter().map(|path| {
        let path = path.strip_prefix(repository()).expect("a file in it");
        path.to_string_lossy().replace('\\', "/")
    });
    relative.map(|path| Source::new(&path, &read(&path))).collect()
}

fn collect(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, extension, found);
        } else if path.extension().is_some_and(|ending| ending == extension) {
            found.push(path);
        }
    }
}

/// The files the program is made of, its tests left out.
pub(super) fn program() -> Vec<Source> {
    let mut sources = sources();
    sources.retain(|source| !source.is_test());
    sources
}

/// The files of the program and of its crates, with their tests.
pub(super) fn sources() -> Vec<Source> {
    let mut sources = files("src", "rs");
    sources.extend(files("crates", "rs"));
    sources
}

/// A text taken apart; each part has blanks in place of the others.
pub(super) struct Split {
    /// Neither comments nor what stands in quotes.
    pub(super) code: String,
    /// Comments alone.
    pub(super) comments: String,
}

/// Tells code from comments and from what stands in quotes.
pub(super) fn split(text: &str) -> Split {
    #[derive(Clone, Copy, PartialEq)]
    enum Part {
        Code,
        Comment,
        Quoted,
    }

    let chars: Vec<char> = text.chars().collect();
    let mut parts = vec![Part::Code; chars.len()];
    let at = |index: usize| chars.get(index).copied().unwrap_or('\0');
    let mut index = 0;
    while index < chars.len() {
        let (end, part) = match (at(index), at(index + 1)) {
            ('/', '/') => (line_end(&chars, index), Part::Comment),
            ('/', '*') => (block_end(&chars, index), Part::Comment),
            ('"', _) => (quote_end(&chars, index + 1, '"'), Part::Quoted),
            ('\'', '\\') => (quote_end(&chars, index + 1, '\''), Part::Quoted),
            ('\'', _) if at(index + 2) == '\'' => (index + 3, Part::Quoted),
            ('r', '"' | '#') if !is_word(index.checked_sub(1).map_or('\0', at)) => {
                (raw_end(&chars, index).unwrap_or(index + 1), Part::Quoted)
            }
            ('b', 'r') if !is_word(index.checked_sub(1).map_or('\0', at)) => {
                (raw_end(&chars, index + 1).unwrap_or(index + 1), Part::Quoted)
            }
            _ => (index + 1, Part::Code),
        };
        let end = end.min(chars.len());
        // A raw identifier or the word `break` is one character of code.
        let part = if end == index + 1 { Part::Code } else { part };
        parts[index..end].fill(part);
        index = end;
    }
    let only = |wanted: Part| {
        let chars = chars.iter().zip(&parts);
        chars
            .map(|(c, part)| match c {
                '\n' => '\n',
                c if *part == wanted => *c,
                _ => ' ',
            })
            .collect()
    };
    Split { code: only(Part::Code), comments: only(Part::Comment) }
}

/// Returns `true` if a character can stand in a name.
pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn line_end(chars: &[char], start: usize) -> usize {
    let rest = chars[start..].iter().position(|c| *c == '\n');
    rest.map_or(chars.len(), |length| start + length)
}

fn block_end(chars: &[char], start: usize) -> usize {
    let mut depth = 0;
    let mut index = start;
    while index + 1 < chars.len() {
        match (chars[index], chars[index + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                index += 1;
                continue;
            }
        }
        index += 2;
        if depth == 0 {
            return index;
        }
    }
    chars.len()
}

/// The index after the closing quote, from the index after the opening one.
fn quote_end(chars: &[char], start: usize, quote: char) -> usize {
    let mut index = start;
    while index < chars.len() {
        match chars[index] {
            '\\' => index += 2,
            c if c == quote => return index + 1,
            _ => index += 1,
        }
    }
    chars.len()
}

/// The index after a raw string that begins with the `r` at `start`; none if there is none.
fn raw_end(chars: &[char], start: usize) -> Option<usize> {
    let hashes = chars[start + 1..].iter().take_while(|c| **c == '#').count();
    let open = start + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let closing: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let rest = &chars[open + 1..];
    let length = rest.windows(closing.len()).position(|window| window == closing)?;
    Some(open + 1 + length + closing.len())
}

/// Code without its `#[cfg(test)] mod … { … }`, line by line where it was.
pub(super) fn without_tests(code: &str) -> String {
    let module = regex::Regex::new(r"#\[cfg\(test\)\]\s*mod\s+\w+\s*\{").expect("a pattern");
    let mut left = code.to_owned();
    while let Some(found) = module.find(&left) {
        let mut depth = 1;
        let body = &left[found.end()..];
        let length = body.find(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth == 0
        });
        let end = length.map_or(left.len(), |length| found.end() + length + 1);
        let blank: String =
            left[found.start()..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        left.replace_range(found.start()..end, &blank);
    }
    left
}

#[test]
fn code_is_told_from_comments_and_quotes() {
    let text = "a /* b /* c */ d */ e // f\ng(\"h // \\\" i\", 'j', '\\'', r#\"k\"l\"#) br\"m\"";
    let Split { code, comments } = split(text);
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words(&code), "a e g( , , , )");
    assert_eq!(words(&comments), "/* b /* c */ d */ // f");
    assert_eq!(code.lines().count(), text.lines().count());
    let lifetimes = "fn r<'a>(x: &'a str) -> r#type<'a> { break 'b'; }";
    assert_eq!(split(lifetimes).code, lifetimes.replace("'b'", "   "), "lifetimes are no quotes");
}

#[test]
fn tests_are_no_part_of_the_program() {
    let text = "a\n#[cfg(test)]\nmod tests {\n  b { c } \"}\"\n}\nd\n#[cfg(test)]\nmod e;";
    let program = Source::new("src/x.rs", text).program();
    let words: Vec<&str> = program.split_whitespace().collect();
    assert_eq!(words, ["a", "d", "#[cfg(test)]", "mod", "e;"]);
    for path in ["tests/it/x.rs", "src/x/tests.rs", "src/x/tests/y.rs"] {
        assert!(Source::new(path, "").is_test());
    }
    assert!(!Source::new("src/tests_of_speed.rs", "").is_test());
}
