//! Compares the messages that an agent receives in two worlds.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use serde_json::Value;

use crate::one_policy::agent::ReceivedMessages;
use crate::one_policy::notifications::BY_ITSELF;
use crate::one_policy::second_agent::Sharing;
use crate::one_policy::world::World;

/// The gateway's progress message while servers start, which depends on timing.
const WAITING: &str = ": waiting for ";

/// Checks that an agent that sends these requests can't distinguish the two worlds.
///
/// Responses must be equal, and so must the notifications between two responses, in any order.
/// Notifications that can come at any time can also come too late; [`check_words`] checks those.
pub(crate) fn differences(
    with: &ReceivedMessages,
    without: &ReceivedMessages,
    requests: &[(String, Value)],
    sharing: Sharing,
    judges_resources: bool,
) -> Result<(), TestCaseError> {
    prop_assert_eq!(with.answers.len(), without.answers.len());
    let first = with.answers.len().saturating_sub(requests.len());
    let request = |index: usize| index.checked_sub(first).and_then(|at| requests.get(at));
    for (index, (a, b)) in with.answers.iter().zip(&without.answers).enumerate() {
        prop_assert_eq!(a.to_string(), b.to_string(), "to {:?}", request(index));
    }
    let (told_with, told_without) = (in_their_place(with), in_their_place(without));
    let places: BTreeSet<_> = told_with.keys().chain(told_without.keys()).collect();
    for place in places {
        // A server may send notifications about a URI that it lacks. The gateway asks it only if
        // patterns match, and those differ between the worlds.
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
            // Some notifications are withheld.
            Sharing::Servers => b = shared(&a, b),
            // The other agent's notifications arrive too.
            Sharing::Callers => continue,
        }
        prop_assert_eq!(a, b, "notifications with the response to {:?}", request(*place));
    }
    prop_assert_eq!(changes(with), changes(without));
    Ok(())
}

/// Returns `true` if a notification belongs to no request and so can come before or after any
/// response.
fn is_at_any_moment(notice: &str) -> bool {
    let words = ["/list_changed\"", "/subscriptions/acknowledged\"", "/resources/updated\""];
    words.iter().chain(&[BY_ITSELF, WAITING]).any(|word| notice.contains(word))
}

fn in_their_place(heard: &ReceivedMessages) -> BTreeMap<usize, Vec<String>> {
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

fn shared(some: &[String], all: Vec<String>) -> Vec<String> {
    let mut left = some.to_vec();
    let is_there = |notice: &String| {
        let at = left.iter().position(|other| other == notice);
        at.map(|at| left.swap_remove(at)).is_some()
    };
    all.into_iter().filter(is_there).collect()
}

pub(crate) fn check_marks(heard: &ReceivedMessages, mark: &str) -> Result<(), TestCaseError> {
    let found = heard.messages().find(|message| message.contains(mark));
    prop_assert_eq!(found, None);
    Ok(())
}

fn changes(heard: &ReceivedMessages) -> BTreeSet<String> {
    let told = heard.told.iter().map(|(_, notice)| notice.to_string());
    told.filter(|notice| notice.contains("/list_changed\"")).collect()
}

/// Checks that every notification is about something that remains. Servers send their paths, which
/// are secret; the gateway adds its name for the server.
pub(crate) fn check_words(
    heard: &ReceivedMessages,
    world: &World,
    left: &World,
) -> Result<(), TestCaseError> {
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
