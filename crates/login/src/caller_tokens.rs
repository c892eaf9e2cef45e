//! Verified tokens of callers, which are exchanged for tokens of servers. Kept only in memory.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::record::unix_now;

/// Maximum number of callers. Beyond it, the token that expires first is dropped.
const MAX_CALLERS: usize = 4096;
/// How often expired tokens are dropped, in seconds.
const PURGE_INTERVAL: u64 = 30;

#[derive(Clone)]
pub(crate) struct CallerToken {
    pub(crate) value: Arc<str>,
    /// In seconds since the Unix epoch.
    pub(crate) expires: u64,
    /// The audiences of this program.
    pub(crate) own_audience: Arc<[String]>,
}

#[derive(Default)]
pub(crate) struct CallerTokens(Mutex<State>);

#[derive(Default)]
struct State {
    tokens: HashMap<String, CallerToken>,
    purged: u64,
}

pub(crate) struct PresentedToken {
    /// `true` if the caller had another token, or none.
    pub(crate) is_new: bool,
    /// `true` if tokens of other callers were dropped.
    pub(crate) has_dropped: bool,
}

impl CallerTokens {
    pub(crate) fn present(
        &self,
        caller: &str,
        token: &str,
        expires: u64,
        audience: &[String],
    ) -> PresentedToken {
        let (mut state, now) = (self.0.lock(), unix_now());
        let before = state.tokens.len();
        if now >= state.purged.saturating_add(PURGE_INTERVAL) {
            state.purged = now;
            state.tokens.retain(|_, token| token.expires > now);
        }
        let known = state.tokens.get(caller);
        if known.is_some_and(|known| *known.value == *token && *known.own_audience == *audience) {
            let has_dropped = state.tokens.len() < before;
            return PresentedToken { is_new: false, has_dropped };
        }
        if known.is_none() && state.tokens.len() >= MAX_CALLERS {
            let first = state.tokens.iter().min_by_key(|(_, token)| token.expires);
            if let Some(first) = first.map(|(caller, _)| caller.clone()) {
                state.tokens.remove(&first);
            }
        }
        let has_dropped = state.tokens.len() < before;
        let token = CallerToken { value: token.into(), expires, own_audience: audience.into() };
        state.tokens.insert(caller.to_owned(), token);
        PresentedToken { is_new: true, has_dropped }
    }

    /// Returns the caller's token, unless it has expired.
    pub(crate) fn get(&self, caller: &str) -> Option<CallerToken> {
        let token = self.0.lock().tokens.get(caller).cloned();
        token.filter(|token| token.expires > unix_now())
    }

    pub(crate) fn has(&self, caller: &str) -> bool {
        self.get(caller).is_some()
    }

    pub(crate) fn clear(&self) {
        self.0.lock().tokens.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_of_a_later_request_replaces_the_earlier_one() {
        let (tokens, later) = (CallerTokens::default(), unix_now() + 60);
        assert!(tokens.present("ann", "one", later, &[]).is_new);
        assert!(!tokens.present("ann", "one", later, &[]).is_new);
        assert!(tokens.present("ann", "two", later, &[]).is_new);
        assert_eq!(&*tokens.get("ann").unwrap().value, "two");
        assert!(!tokens.has("bob"));
        tokens.clear();
        assert!(!tokens.has("ann"));
    }

    #[test]
    fn expired_tokens_are_not_used_and_the_number_is_bounded() {
        let (tokens, now) = (CallerTokens::default(), unix_now());
        tokens.present("old", "token", now, &[]);
        assert!(!tokens.has("old"));
        for number in 0..=MAX_CALLERS as u64 {
            tokens.present(&number.to_string(), "token", now + 60 + number, &[]);
        }
        assert_eq!(tokens.0.lock().tokens.len(), MAX_CALLERS);
        assert!(!tokens.has("0") && tokens.has("1"));
    }
}
