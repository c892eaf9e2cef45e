//! Comparing what an agent receives of two worlds: its answers, and what it is told besides.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use serde_json::Value;

use crate::one_policy::agent::Heard;
use crate::one_policy::company::Sharing;
use crate::one_policy::talk::BY_ITSELF;
use crate::one_policy::world::World;

/// The workbench's own words while servers start, which say how far it has got.
const WAITING: &str = ": waiting for ";

/// Checks that two worlds are the same for an agent that makes these requests.
///
/// All answers are, and so is whatever it is told between one answer and the next, in any order. What
/// may come at any moment may also come too late, and is looked at by [`check_words`].
pub(crate) fn differences(
    with: &Heard,
    without: &Heard,
    requests: &[(String, Value)],
    sharing: Sharing,
    judges_resources: bool,
) -> Result<(), TestCaseError> {
    prop_assert_eq!(with.answers.len(), without.answers.len());
    let first = with.answers.len().saturating_sub(requests.len());
    let request = |place: usize| place.checked_sub(first).and_then(|at| requests.get(at));
    for (place, (a, b)) in with.answers.iter().zip(&without.answers).enumerate() {
        prop_assert_eq!(a.to_string(), b.to_string(), "to {:?}", request(place));
    }
    let (told_with, told_without) = (in_their_place(with), in_their_place(without));
    let places: BTreeSet<_> = told_with.keys().chain(told_without.keys()).collect();
    for place in places {
        // A server that is asked for an address that it does not have may speak of it; whether it is asked
        // depends on patterns that are not the same in both worlds.
        let is_of_address = |(method, _): &(String, Value)| {
            method.starts_with("resources/") || method == "completion/complete"
        };
        if judges_resources && request(*place).is_some_and(is_of_address) {
            continue;
        }
        let told =
            |told: &BTreeMap<usize, Vec<String>>| told.get(place).cloned().unwrap_or_default();
        let (a, mut b) = (told(&told_with), told(&told_without));
        match sharing {
            Sharing::Nothing => {}
            // Not everything is heard.
            Sharing::Servers => b = shared(&a, b),
            // More is.
            Sharing::Callers => continue,
        }
        prop_assert_eq!(a, b, "with the answer to {:?}", request(*place));
    }
    prop_assert_eq!(changes(with), changes(without));
    Ok(())
}

/// Returns `true` if a notification belongs to no request of the agent, and so may come before or
/// after an answer.
fn is_at_any_moment(notice: &str) -> bool {
    let words = ["/list_changed\"", "/subscriptions/acknowledged\"", "/resources/updated\""];
    words.iter().chain(&[BY_ITSELF, WAITING]).any(|word| notice.contains(word))
}

/// The notifications that came after so many answers, and before the next, in alphabetical order.
fn in_their_place(heard: &Heard) -> BTreeMap<usize, Vec<String>> {
    let mut places = BTreeMap::<usize, Vec<String>>::new();
    for (place, notice) in &heard.told {
        let notice = notice.to_string();
        if !is_at_any_moment(&notice) {
            places.entry(*place).or_default().push(notice);
        }
    }
    for notices in places.values_mut() {
        notices.sort();
    }
    places
}

/// Returns the part of `all` that is among `some`, each as often as it is there.
fn shared(some: &[String], all: Vec<String>) -> Vec<String> {
    let mut left = some.to_vec();
    let is_there = |notice: &String| {
        let at = left.iter().position(|other| other == notice);
        at.map(|at| left.swap_remove(at)).is_some()
    };
    all.into_iter().filter(is_there).collect()
}

/// Checks that an agent receives nothing with this mark in it.
pub(crate) fn check_marks(heard: &Heard, mark: &str) -> Result<(), TestCaseError> {
    let found = heard.messages().find(|message| message.contains(mark));
    prop_assert_eq!(found, None);
    Ok(())
}

/// The lists that have changed for it.
fn changes(heard: &Heard) -> BTreeSet<String> {
    let told = heard.told.iter().map(|(_, notice)| notice.to_string());
    told.filter(|notice| notice.contains("/list_changed\"")).collect()
}

/// Checks that every notification is of something that is left. Servers say their paths, which nobody
/// else knows; the workbench says under which name it knows them.
pub(crate) fn check_words(heard: &Heard, world: &World, left: &World) -> Result<(), TestCaseError> {
    let places = |world: &World| -> BTreeSet<(String, String)> {
        let servers = world.toolboxes.iter().flat_map(|toolbox| &toolbox.servers);
        servers.map(|server| (server.path.clone(), server.name.clone())).collect()
    };
    let (all, known) = (places(world), places(left));
    for (_, notice) in &heard.told {
        let text = notice.to_string();
        let logger = notice["params"]["logger"].as_str();
        let label = logger.map(|logger| logger.split('/').next().unwrap_or_default());
        let mut spoken_of = all.iter().map(|(path, _)| path).filter(|path| text.contains(*path));
        let is_known = |path: &String| {
            let mut names = known.iter().filter(|(other, _)| other == path).map(|(_, name)| name);
            names.any(|name| label.is_none_or(|label| label == name))
        };
        prop_assert!(spoken_of.all(is_known), "{}", notice);
        if let Some((_, waiting)) = text.split_once(WAITING) {
            let mut names = waiting.split('`').skip(1).step_by(2);
            let is_known = |name: &str| known.iter().any(|(_, known)| known == name);
            prop_assert!(names.all(is_known), "{}", notice);
        }
        if notice["method"] == "notifications/resources/updated" {
            let uri = notice["params"]["uri"].as_str().unwrap_or_default();
            let has_it = |of: &World| {
                of.toolboxes.iter().flat_map(|t| &t.servers).any(|server| {
                    server.catalog.resources.iter().any(|known| uri.ends_with(known.as_str()))
                })
            };
            prop_assert!(has_it(left), "{}", notice);
        }
    }
    Ok(())
}
