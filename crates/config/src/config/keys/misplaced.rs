//! Hints about keys that stand in the wrong place, for whoever refuses them.

use crate::config::keys::raw::RawConfig;
use crate::config::syntax::section::{Described, Section};

/// The most places that a hint names.
const MOST: usize = 3;

/// Returns a hint about a key that was refused where it stands.
pub(crate) fn belongs_elsewhere(key: &str) -> Option<String> {
    let hint = match key {
        "servers" | "context_servers" | "mcp" => "did you mean `mcpServers`?",
        "tools" => "tools are chosen by `toolFilters`, in a server under `mcpServers`",
        "inputs" => "nobody is asked for input here: write `${NAME}` and set that variable",
        _ => return belongs_in(key, RawConfig::DESCRIPTION),
    };
    Some(hint.to_owned())
}

/// Returns a hint with the places in `top`, and in the sections inside it, that have such a key.
pub(crate) fn belongs_in(key: &str, top: &'static Section) -> Option<String> {
    let has_key = |section: &&Section| {
        section.keys.iter().any(|known| known.name == key || known.also == Some(key))
    };
    let sections = top.all().into_iter().filter(has_key);
    let mut places: Vec<&str> = sections.filter_map(|section| section.place).collect();
    // `limits` is said of the top-level `limits` too.
    let all = places.clone();
    places.retain(|place| !all.iter().any(|other| other != place && place.ends_with(other)));
    places.truncate(MOST);
    if places.len() > 1 {
        // Among others a place is named in a few words.
        places = places.iter().filter_map(|place| place.split(", under ").next()).collect();
    }
    let places = match places.as_slice() {
        [] => return None,
        [only] => (*only).to_owned(),
        [most @ .., last] => format!("{}, or {last}", most.join(", ")),
    };
    Some(format!("`{key}` belongs in {places}"))
}
