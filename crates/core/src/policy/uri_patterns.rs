//! Compiled patterns over names and URIs of resources, and over names of prompts.

use foldhash::HashSet;
use globset::{Glob, GlobSet, GlobSetBuilder};
use url::Url;

use crate::policy::resource_uri::{CanonicalUri, ResourceUri, normalize_ignoring_case, unencoded};

#[derive(Debug, Default)]
pub(crate) struct UriPatternSet {
    /// The patterns as written, because a URI template can look like a glob.
    exact: HashSet<String>,
    globs: GlobSet,
    /// Globs over normalized URIs. `exact_spelled` has the same patterns as literal URIs.
    spelled: GlobSet,
    exact_spelled: HashSet<String>,
    /// For each glob, `true` if it contains `?` or `#`.
    heeds_query: Vec<bool>,
}

/// A glob set that does not compile.
#[derive(Debug)]
pub(crate) struct PatternSetError;

impl UriPatternSet {
    /// Compiles an allowlist, which is case-sensitive.
    pub(crate) fn allowing(patterns: &[&str]) -> Result<Self, PatternSetError> {
        Self::new(patterns, unencoded)
    }

    /// Compiles a denylist, which ignores the case of URIs.
    pub(crate) fn forbidding(patterns: &[&str]) -> Result<Self, PatternSetError> {
        Self::new(patterns, normalize_ignoring_case)
    }

    fn new(patterns: &[&str], spell: fn(&str) -> String) -> Result<Self, PatternSetError> {
        let [mut globs, mut spelled] = [(); 2].map(|()| GlobSetBuilder::new());
        for pattern in patterns {
            let own = glob(pattern)?;
            spelled.add(respelled(pattern, spell).unwrap_or_else(|| own.clone()));
            globs.add(own);
        }
        let build = |set: GlobSetBuilder| set.build().map_err(|_| PatternSetError);
        Ok(Self {
            exact: patterns.iter().map(|&pattern| pattern.to_owned()).collect(),
            exact_spelled: patterns.iter().flat_map(|pattern| spelled_by(pattern, spell)).collect(),
            heeds_query: patterns.iter().map(|pattern| pattern.contains(['?', '#'])).collect(),
            globs: build(globs)?,
            spelled: build(spelled)?,
        })
    }

    /// Returns `true` if a name, or a URI as its server lists it, matches.
    pub(crate) fn have(&self, name: &str) -> bool {
        self.exact.contains(name) || self.globs.is_match(name)
    }

    /// Returns `true` if any spelling of the URI matches.
    pub(crate) fn matches_any_spelling(&self, address: &ResourceUri<'_>) -> bool {
        address.forms().any(|form| self.exact_spelled.contains(form) || self.spelled.is_match(form))
    }

    /// Returns `true` if the canonical URI matches. A pattern without `?` or `#` must also match
    /// the part before the query, because a server may ignore the query.
    pub(crate) fn matches_canonical(&self, CanonicalUri { whole, path }: &CanonicalUri) -> bool {
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

/// The normalized forms of a literal URI: as written, and as the URL standard parses it.
fn spelled_by(pattern: &str, spell: fn(&str) -> String) -> impl Iterator<Item = String> {
    let parsed = Url::parse(pattern).ok().map(|url| spell(url.as_str()));
    [Some(spell(pattern)), parsed].into_iter().flatten()
}

/// Compiles a glob. An invalid glob matches itself.
fn glob(pattern: &str) -> Result<Glob, PatternSetError> {
    let own = Glob::new(pattern).or_else(|_| Glob::new(&globset::escape(pattern)));
    own.map_err(|_| PatternSetError)
}

/// Unicode noncharacters that replace glob syntax while a pattern is normalized.
const SPECIAL: [(char, char); 5] =
    [('\u{fdd0}', '*'), ('\u{fdd1}', '?'), ('\u{fdd2}', '{'), ('\u{fdd3}', '}'), ('\u{fdd4}', ',')];
/// The first of the private-use characters that replace character classes, in order.
const CLASSES: u32 = 0xf_0000;
const MAX_CLASSES: usize = 0xffff;

/// Normalizes a glob over URIs. Returns `None` if that is not possible, such as when the pattern
/// contains one of the stand-in characters.
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
    if classes.len() > MAX_CLASSES {
        return None;
    }
    let mut glob = String::new();
    for c in spell(&text).chars() {
        if let Some((_, special)) = SPECIAL.iter().find(|(stand_in, _)| *stand_in == c) {
            glob.push(*special);
        } else if let Some(class) = (c as u32).checked_sub(CLASSES) {
            let class = classes.get(class as usize)?;
            // Without regard to case, URIs are matched in lower case.
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

/// Returns the end of the character class that `text` starts in. A leading `]` belongs to it.
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
        UriPatternSet::forbidding(&[pattern]).unwrap().matches_any_spelling(&ResourceUri::new(uri))
    }

    fn allows(pattern: &str, uri: &str) -> bool {
        let plain = ResourceUri::new(uri).plain;
        plain.is_some_and(|plain| {
            UriPatternSet::allowing(&[pattern]).unwrap().matches_canonical(&plain)
        })
    }

    #[test]
    fn denylist_matches_every_spelling() {
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
    fn allowlist_matches_only_the_canonical_uri() {
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
