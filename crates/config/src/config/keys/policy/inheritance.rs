//! Who takes over whose permissions (`extends`): that they are there, and that it ends somewhere.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::keys::policy::raw::RawAgentPolicy;
use crate::config::syntax::reader::{Located, Reader, did_you_mean, listed};

/// How many agents may extend each other in a row.
const MOST_DEEP: usize = 50;

/// Refuses agents that extend others who are not there, and circles, each by its name.
pub(super) fn check(agents: &[(Located<String>, RawAgentPolicy)], reader: &mut Reader<'_>) {
    let names: Vec<&str> = agents.iter().map(|(name, _)| name.value.as_str()).collect();
    let mut parents: BTreeMap<&str, &[Located<String>]> = BTreeMap::new();
    for (name, raw) in agents {
        let extended = raw.extends.as_deref().unwrap_or_default();
        for parent in extended.iter().filter(|parent| !names.contains(&parent.value.as_str())) {
            let hint = did_you_mean(&parent.value, &names)
                .unwrap_or_else(|| format!("the agents are {}", listed(&names, "and")));
            let message = format!("there is no agent `{}` in `agentPolicies`", parent.value);
            reader.error(&parent.spot, message, Some(hint));
        }
        parents.insert(name.value.as_str(), extended);
    }
    let mut walk = Walk { parents, path: Vec::new(), done: BTreeSet::new() };
    for name in names {
        walk.from(name, reader);
    }
}

/// A walk along `extends`, from each agent once.
struct Walk<'a> {
    parents: BTreeMap<&'a str, &'a [Located<String>]>,
    path: Vec<&'a str>,
    done: BTreeSet<&'a str>,
}

impl<'a> Walk<'a> {
    fn from(&mut self, name: &'a str, reader: &mut Reader<'_>) {
        let mut open: Vec<(&'a str, usize)> = vec![(name, 0)];
        // A loop of our own: a file may have thousands of agents in one line.
        while let Some((name, next)) = open.last_mut() {
            if *next == 0 && self.done.contains(*name) {
                open.pop();
                continue;
            }
            if *next == 0 {
                self.path.push(*name);
            }
            let parents = self.parents.get(*name).copied().unwrap_or_default();
            let Some(parent) = parents.get(*next) else {
                self.done.insert(*name);
                self.path.pop();
                open.pop();
                continue;
            };
            *next += 1;
            if let Some(start) = self.path.iter().position(|above| *above == parent.value) {
                let circle = self.path[start..].iter().copied().chain([parent.value.as_str()]);
                let circle: Vec<String> = circle.map(|name| format!("`{name}`")).collect();
                let message = format!("a circle: {}", circle.join(" extends "));
                reader.error(&parent.spot, message, Some("break it somewhere".to_owned()));
            } else if self.path.len() >= MOST_DEEP {
                let message = format!("more than {MOST_DEEP} agents extend each other in a row");
                reader.error(&parent.spot, message, None);
            } else {
                open.push((parent.value.as_str(), 0));
            }
        }
    }
}
