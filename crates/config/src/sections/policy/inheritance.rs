//! Validation of `extends`: existing agents, no cycles, bounded depth.

use std::collections::{BTreeMap, BTreeSet};

use crate::sections::policy::raw::RawAgentPolicy;
use crate::syntax::reader::{ConfigReader, Located, did_you_mean, quoted_list};

/// Maximum length of an `extends` chain.
const MAX_DEPTH: usize = 50;

/// Reports unknown agents, cycles and overlong chains.
pub(super) fn check(agents: &[(Located<String>, RawAgentPolicy)], reader: &mut ConfigReader<'_>) {
    let names: Vec<&str> = agents.iter().map(|(name, _)| name.value.as_str()).collect();
    let mut parents: BTreeMap<&str, &[Located<String>]> = BTreeMap::new();
    for (name, raw) in agents {
        let extended = raw.extends.as_deref().unwrap_or_default();
        for parent in extended.iter().filter(|parent| !names.contains(&parent.value.as_str())) {
            let hint = did_you_mean(&parent.value, &names)
                .unwrap_or_else(|| format!("expected {}", quoted_list(&names, "or")));
            let message = format!("no agent `{}` in `agentPolicies`", parent.value);
            reader.report_error(&parent.location, message, Some(hint));
        }
        parents.insert(name.value.as_str(), extended);
    }
    let mut walk = ExtendsWalk { parents, path: Vec::new(), done: BTreeSet::new() };
    for name in names {
        walk.visit(name, reader);
    }
}

/// A depth-first walk along `extends` that visits each agent once.
struct ExtendsWalk<'a> {
    parents: BTreeMap<&'a str, &'a [Located<String>]>,
    path: Vec<&'a str>,
    done: BTreeSet<&'a str>,
}

impl<'a> ExtendsWalk<'a> {
    fn visit(&mut self, name: &'a str, reader: &mut ConfigReader<'_>) {
        let mut open: Vec<(&'a str, usize)> = vec![(name, 0)];
        // Iterative, so that a generated file with thousands of agents can't overflow the call
        // stack.
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
                let message = format!("cycle: {}", circle.join(" extends "));
                reader.report_error(
                    &parent.location,
                    message,
                    Some("remove one of these `extends`".to_owned()),
                );
            } else if self.path.len() >= MAX_DEPTH {
                let message = format!("`extends` chain with more than {MAX_DEPTH} agents");
                reader.report_error(&parent.location, message, None);
            } else {
                open.push((parent.value.as_str(), 0));
            }
        }
    }
}
