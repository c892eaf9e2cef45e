//! Patterns over the names of resources and prompts, and over addresses, made ready.

use foldhash::HashSet;
use globset::{Glob, GlobSet, GlobSetBuilder};
use url::Url;

use crate::policy::address::{Address, Plain, folded, unencoded};

/// Some patterns, and what they match.
#[derive(Debug, Default)]
pub(crate) struct Patterns {
    /// The patterns as they are written: a template may look like a glob.
    exact: HashSet<String>,
    globs: GlobSet,
    /// Globs over addresses in one spelling, and those that are meant just so.
    spelled: GlobSet,
    exact_spelled: HashSet<String>,
    /// Which of the globs speak of `?` or `#`.
    heeds_query: Vec<bool>,
}

/// A set of globs that could not be compiled.
#[derive(Debug)]
pub(crate) struct Broken;

impl Patterns {
    /// Makes patterns ready that allow something, so that case counts.
    pub(crate) fn allowing(patterns: &[&str]) -> Result<Self, Broken> {
        Self::new(patterns, unencoded)
    }

    /// Makes patterns ready that forbid something, whatever the case of an address is.
    pub(crate) fn forbidding(patterns: &[&str]) -> Result<Self, Broken> {
        Self::new(patterns, folded)
    }

    fn new(patterns: &[&str], spell: fn(&str) -> String) -> Result<Self, Broken> {
        let [mut globs, mut spelled] = [(); 2].map(|()| GlobSetBuilder::new());
        for pattern in patterns {
            let own = glob(pattern)?;
            spelled.add(respelled(pattern, spell).unwrap_or_else(|| own.clone()));
            globs.add(own);
        }
        let build = |set: GlobSetBuilder| set.build().map_err(|_| Broken);
        Ok(Self {
            exact: patterns.iter().map(|&pattern| pattern.to_owned()).collect(),
            exact_spelled: patterns.iter().flat_map(|pattern| spelled_by(pattern, spell)).collect(),
            heeds_query: patterns.iter().map(|pattern| pattern.contains(['?', '#'])).collect(),
            globs: build(globs)?,
            spelled: build(spelled)?,
        })
    }

    /// Returns `true` if a name, or an address as a server writes it, is among them.
    pub(crate) fn have(&self, name: &str) -> bool {
        self.exact.contains(name) || self.globs.is_match(name)
    }

    /// Returns `true` if any spelling of an address is among them.
    pub(crate) fn have_any(&self, address: &Address<'_>) -> bool {
        address.forms().any(|form| self.exact_spelled.contains(form) || self.spelled.is_match(form))
    }

    /// Returns `true` if an address without encodings is among them. A pattern that does not speak of a
    /// query has to match what is before it: a server may pass over the rest.
    pub(crate) fn have_plain(&self, Plain { whole, path }: &Plain) -> bool {
        if self.exact_spelled.contains(whole) {
            return true;
        }
        let of_path = self.spelled.matches(path);
        let of_whole = self.spelled.matches(whole);
        of_whole.iter().any(|index| {
            let heeds_query = self.heeds_query.get(*index).copied().unwrap_or_default();
            heeds_query || of_path.contains(index)
        })
    }
}

/// The spellings of a pattern that is an address: as it is written, and as browsers read it.
fn spelled_by(pattern: &str, spell: fn(&str) -> String) -> impl Iterator<Item = String> {
    let parsed = Url::parse(pattern).ok().map(|url| spell(url.as_str()));
    [Some(spell(pattern)), parsed].into_iter().flatten()
}

/// A pattern as a glob; one that is none matches itself.
fn glob(pattern: &str) -> Result<Glob, Broken> {
    let own = Glob::new(pattern).or_else(|_| Glob::new(&globset::escape(pattern)));
    own.map_err(|_| Broken)
}

/// The characters that stand for what is special in a glob while it is spelled anew. None of them is a
/// character of any text.
const SPECIAL: [(char, char); 5] =
    [('\u{fdd0}', '*'), ('\u{fdd1}', '?'), ('\u{fdd2}', '{'), ('\u{fdd3}', '}'), ('\u{fdd4}', ',')];
/// Where those begin that stand for classes of characters, in their order.
const CLASSES: u32 = 0xf_0000;
const MOST_CLASSES: usize = 0xffff;

/// Spells a glob over addresses anew; `None` where that cannot be done.
fn respelled(pattern: &str, spell: fn(&str) -> String) -> Option<Glob> {
    let stands_for =
        |c: char| SPECIAL.iter().any(|(stand_in, _)| *stand_in == c) || c as u32 >= CLASSES;
    if pattern.contains(stands_for) {
        return None;
    }
    let mut text = String::new();
    let mut classes: Vec<&str> = Vec::new();
    let (mut rest, mut depth) = (pattern, 0_usize);
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = after;
        match c {
            '\\' => {
                let next = after.chars().next().unwrap_or('\\');
                rest = after.get(next.len_utf8()..).unwrap_or_default();
                text.push(next);
            }
            '[' => {
                let end = class_end(after)?;
                text.push(char::from_u32(CLASSES + u32::try_from(classes.len()).ok()?)?);
                classes.push(&after[..end]);
                rest = &after[end + 1..];
            }
            '*' | '?' | '{' | '}' => {
                depth = match c {
                    '{' => depth + 1,
                    '}' => depth.saturating_sub(1),
                    _ => depth,
                };
                text.extend(stand_in(c));
            }
            ',' if depth > 0 => text.extend(stand_in(c)),
            c => text.push(c),
        }
    }
    if classes.len() > MOST_CLASSES {
        return None;
    }
    let mut glob = String::new();
    for c in spell(&text).chars() {
        if let Some((_, special)) = SPECIAL.iter().find(|(stand_in, _)| *stand_in == c) {
            glob.push(*special);
        } else if let Some(class) = (c as u32).checked_sub(CLASSES) {
            let class = classes.get(class as usize)?;
            // Where case does not count, addresses are in lower case.
            let class = if spell("A") == "a" { class.to_lowercase() } else { (*class).to_owned() };
            glob.extend(["[", &class, "]"]);
        } else if matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | ',') {
            glob.extend(['[', c, ']']);
        } else {
            glob.push(c);
        }
    }
    Glob::new(&glob).ok()
}

fn stand_in(special: char) -> Option<char> {
    SPECIAL.iter().find(|(_, other)| *other == special).map(|(stand_in, _)| *stand_in)
}

/// Where the class ends that begins before `text`. A `]` at its beginning is in it.
fn class_end(text: &str) -> Option<usize> {
    let negated = text.strip_prefix(['!', '^']).unwrap_or(text);
    let first = text.len() - negated.len();
    let skipped = first + usize::from(negated.starts_with(']'));
    text.get(skipped..)?.find(']').map(|at| skipped + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forbids(pattern: &str, uri: &str) -> bool {
        Patterns::forbidding(&[pattern]).unwrap().have_any(&Address::new(uri))
    }

    fn allows(pattern: &str, uri: &str) -> bool {
        let plain = Address::new(uri).plain;
        plain.is_some_and(|plain| Patterns::allowing(&[pattern]).unwrap().have_plain(&plain))
    }

    #[test]
    fn what_is_forbidden_is_in_every_spelling() {
        for (pattern, uri) in [
            ("file:///secret/*", "file:///%73ecret/a"),
            ("file:///secret/*", "FILE:/pub/..%2fSECRET/a"),
            ("file:///My%20Docs/*", "file:///my docs/a"),
            ("file:///My Docs/*", "file:///My%20Docs/a"),
            ("*.env", "file:///a/.EN%56?x"),
            ("note://[ab]{1,2}", "note://A2"),
            ("note://\\[a\\]", "note://[a]"),
            ("note://{id}", "note://{id}"),
            ("note://%2A", "note://*"),
            ("file:///a/./b", "file:///a/b"),
            ("**/.git/**", "file:///a/.git/config"),
        ] {
            assert!(forbids(pattern, uri), "{pattern} {uri}");
        }
        for (pattern, uri) in [
            ("file:///secret/*", "file:///pub/a"),
            ("note://%2A", "note://a"),
            ("note://\\*", "note://a"),
            ("note://[!a]", "note://a"),
        ] {
            assert!(!forbids(pattern, uri), "{pattern} {uri}");
        }
    }

    #[test]
    fn what_is_allowed_is_so_as_it_is_read_in_the_end() {
        for (pattern, uri) in [
            ("file:///pub/*", "file:///pub/a"),
            ("file:///pub/*", "file:///pub/%61"),
            ("file:///My%20Docs/*", "file:///My%20Docs/a"),
            ("db://rows?limit=*", "db://rows?limit=3"),
            ("db://rows*", "db://rows?limit=3"),
        ] {
            assert!(allows(pattern, uri), "{pattern} {uri}");
        }
        for (pattern, uri) in [
            ("file:///pub/*", "file:///pub/../secret"),
            ("file:///pub/*", "file:///pub/%2e%2e/secret"),
            ("file:///pub/*", "file:///pub\\..\\secret"),
            ("file:///pub/*", "file:///PUB/a"),
            ("file:///*.txt", "file:///secret?.txt"),
            ("file:///*.txt", "file:///secret#.txt"),
        ] {
            assert!(!allows(pattern, uri), "{pattern} {uri}");
        }
    }
}
