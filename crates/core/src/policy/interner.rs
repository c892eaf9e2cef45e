//! Shares policies: agents with the same rules get the same `Policy`.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::policy::agent_policy::Policy;

/// The policies in use. Dropped ones are removed at the next lookup.
#[derive(Debug, Default)]
pub(crate) struct PolicyInterner(Mutex<Vec<Weak<Policy>>>);

impl PolicyInterner {
    /// Returns a policy in use with the same rules, or else this one.
    pub(super) fn shared(&self, policy: Policy) -> Arc<Policy> {
        let mut made = self.0.lock();
        made.retain(|one| one.strong_count() > 0);
        let same = made.iter().filter_map(Weak::upgrade).find(|one| one.is_same(&policy));
        same.unwrap_or_else(|| {
            let policy = Arc::new(policy);
            made.push(Arc::downgrade(&policy));
            policy
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::policy::policies::Policies;
    use mcp_workbench_names::AgentName;

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
        let file = mcp_workbench_config::parse(
            &file.to_string(),
            Path::new("x.json"),
            Path::new("/"),
            &env,
        );
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
