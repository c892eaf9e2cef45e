//! Hints for unknown keys that are valid in another section.

use crate::sections::root::RawConfig;
use crate::syntax::renamed::renamed;
use crate::syntax::section::{ConfigSection, SectionSpec};

const MOST: usize = 3;

pub(crate) fn misplaced_key_hint(key: &str) -> Option<String> {
    let hint = match key {
        "servers" | "context_servers" | "mcp" => "did you mean `mcpServers`?",
        "tools" => "select tools with `toolFilters` in a server under `mcpServers`",
        "inputs" => "prompting for values is not supported: write `${NAME}` and set that variable",
        _ => {
            let owner = |key: &str| owning_section_hint(key, RawConfig::SPEC);
            return owner(key).or_else(|| renamed(key).find_map(owner));
        }
    };
    Some(hint.to_owned())
}

/// Returns a hint that names the sections below `top` which define `key`.
pub(crate) fn owning_section_hint(key: &str, top: &'static SectionSpec) -> Option<String> {
    let has_key = |section: &&SectionSpec| {
        section.keys.iter().any(|known| known.name == key || known.alias == Some(key))
    };
    let sections = top.flatten().into_iter().filter(has_key);
    let mut places: Vec<&str> = sections.filter_map(|section| section.location_hint).collect();
    // "`limits`" covers "the top-level `limits`" too, so keep only the shorter one.
    let all = places.clone();
    places.retain(|place| !all.iter().any(|other| other != place && place.ends_with(other)));
    places.truncate(MOST);
    if places.len() > 1 {
        // A list uses the short form, such as "a server" for "a server, under `mcpServers`".
        places = places.iter().filter_map(|place| place.split(", under ").next()).collect();
    }
    let places = match places.as_slice() {
        [] => return None,
        [only] => (*only).to_owned(),
        [most @ .., last] => format!("{}, or {last}", most.join(", ")),
    };
    Some(format!("`{key}` belongs in {places}"))
}
