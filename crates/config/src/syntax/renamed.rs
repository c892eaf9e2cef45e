//! Hints for keys and values whose names have changed too much for a similarity suggestion.

use crate::syntax::key_case::to_camel_case;

/// Old and new names of keys, and of values of `autoReload`. An old name can have several new ones,
/// in different sections.
const RENAMED: [(&str, &str); 18] = [
    ("cache", "resultCache"),
    ("concurrentCalls", "maxConcurrentCalls"),
    ("definitions", "onDefinitionChange"),
    ("everything", "all"),
    ("leewaySeconds", "leewayMs"),
    ("maxCalls", "maxConcurrentCalls"),
    ("maxCalls", "maxRequests"),
    ("maxKeptBytes", "maxStoredBytes"),
    ("maxKeptResults", "maxStoredResults"),
    ("maxQuestions", "maxInputRequests"),
    ("offered", "tool"),
    ("presentation", "safe"),
    ("relistsInTime", "refreshesToolList"),
    ("settlingMs", "toolListDelayMs"),
    ("shared", "sharedStore"),
    ("shared", "shareProcess"),
    ("toolSearch", "hasToolSearch"),
    ("watch", "autoReload"),
];

/// Returns the new names of `old`, which can be in `snake_case`.
pub(crate) fn renamed(old: &str) -> impl Iterator<Item = &'static str> {
    let old = to_camel_case(old);
    RENAMED.into_iter().filter_map(move |(name, new)| (name == old).then_some(new))
}

/// Suggests the new name of `old`, if it is in `known`.
pub(crate) fn renamed_hint(old: &str, known: &[&str]) -> Option<String> {
    let new = renamed(old).find(|new| known.contains(new))?;
    let unit = if old.ends_with("Seconds") { " (in milliseconds)" } else { "" };
    Some(format!("did you mean `{new}`{unit}?"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sections::root::RawConfig;
    use crate::syntax::section::ConfigSection;

    #[test]
    fn new_names_are_keys_or_values() {
        let sections = RawConfig::SPEC.flatten();
        for (old, new) in RENAMED {
            let mut owners = sections.iter().filter(|section| section.key(new).is_some());
            let is_value = ["safe", "all"].contains(&new);
            assert!(is_value || owners.clone().next().is_some(), "{new}");
            assert!(owners.all(|section| section.key(old).is_none()), "{old}");
        }
    }

    #[test]
    fn hints_depend_on_the_known_keys() {
        assert_eq!(
            renamed_hint("shared", &["url", "shareProcess"]).unwrap(),
            "did you mean `shareProcess`?"
        );
        assert_eq!(
            renamed_hint("max_calls", &["maxRequests"]).unwrap(),
            "did you mean `maxRequests`?"
        );
        assert_eq!(renamed_hint("shared", &["url"]), None);
        assert_eq!(renamed_hint("url", &["url"]), None);
        let leeway = renamed_hint("leewaySeconds", &["leewayMs"]).unwrap();
        assert_eq!(leeway, "did you mean `leewayMs` (in milliseconds)?");
    }
}
