//! Shares policies: agents with the same rules get the same `Policy`.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::name::AgentName;
use crate::policy::{Policies, Policy, ServerRules};

/// The policies in use. Dropped ones are removed at the next lookup.
#[derive(Debug, Default)]
pub(crate) struct PolicyInterner(Mutex<Vec<Weak<Policy>>>);

impl Policies {
    /// Returns the rules for an agent; `None` is the anonymous agent.
    pub fn for_agent(&self, agent: Option<&AgentName>) -> Arc<Policy> {
        let policy = Policy::of(&self.config, agent);
        let mut made = self.made.0.lock();
        made.retain(|one| one.strong_count() > 0);
        let same = made.iter().filter_map(Weak::upgrade).find(|one| one.is_same(&policy));
        same.unwrap_or_else(|| {
            let policy = Arc::new(policy);
            made.push(Arc::downgrade(&policy));
            policy
        })
    }
}

impl Policy {
    /// Returns `true` if both have the same rules of one configuration. A policy with conditions is
    /// never shared.
    fn is_same(&self, other: &Self) -> bool {
        self.rules.len() == other.rules.len()
            && self.rules.iter().all(|(toolbox, rules)| {
                other.rules.get(toolbox).is_some_and(|others| {
                    rules.len() == others.len()
                        && rules.iter().all(|(server, rules)| {
                            others.get(server).is_some_and(|others| rules.is_same(others))
                        })
                })
            })
            && self.timed.is_empty()
            && other.timed.is_empty()
    }
}

impl ServerRules {
    /// A rule is identified by its path, so equal paths mean equal lists.
    fn is_same(&self, other: &Self) -> bool {
        let lists =
            |rules: &Self| rules.lists.iter().map(|(rule, _)| rule.clone()).collect::<Vec<_>>();
        self.conditions.is_empty()
            && other.conditions.is_empty()
            && self.otherwise == other.otherwise
            && self.resources.is_same(&other.resources)
            && self.prompts.is_same(&other.prompts)
            && lists(self) == lists(other)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::config;

    #[test]
    fn agents_with_the_same_rules_share_a_policy() {
        let file = json!({
            "mcpServers": {"one": {"command": "x"}, "two": {"command": "y"}},
            "agentPolicies": {
                "ann": {"toolOverrides": {"one": ["a", "b"]}},
                "bob": {"extends": "ann"},
                "eve": {"toolOverrides": {"one": ["a", "b"]}},
                "sam": {},
                "tom": {},
                "late": {"when": {"tools": ["b"], "time": {"between": ["22:00", "06:00"]}}},
            },
        });
        let env = BTreeMap::<String, String>::new();
        let file = config::parse(&file.to_string(), Path::new("x.json"), Path::new("/"), &env);
        let policies = Policies::new(Arc::new(file.unwrap().config));
        let [ann, bob, eve, sam, tom, late, again] =
            ["ann", "bob", "eve", "sam", "tom", "late", "late"]
                .map(|agent| policies.for_agent(Some(&AgentName::new(agent))));
        assert!(Arc::ptr_eq(&ann, &bob) && Arc::ptr_eq(&sam, &tom));
        assert!(!Arc::ptr_eq(&ann, &eve), "lists of different agents can change separately");
        assert!(!Arc::ptr_eq(&sam, &ann) && !Arc::ptr_eq(&sam, &late));
        assert!(!Arc::ptr_eq(&late, &again));
    }
}
