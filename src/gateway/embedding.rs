//! A model that says what texts mean, in place of the table that is compiled in
//! (`search.embeddings`).
//!
//! *Theory of operation.* Tools are asked for when somebody searches them, each text once: what is
//! known is kept in memory and in the store. Whoever asks has made the texts of views, so that the
//! endpoint is told of nothing that the agent may not see. A search waits for a while, and what came
//! until then is there for the next one. Whatever fails costs the search the model and not the
//! search: the table counts then, the log says so once, and the endpoint is left alone for a while.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use moka::sync::Cache;
use tokio::time::{Instant, timeout_at};

use crate::backend::{KnownTexts, Pool, TextKey, text_key};
use crate::catalog::ToolDefinition;
use crate::catalog::rank::{BACKGROUND, MAX_QUERY, Vector, Vectors};
use crate::config::SearchConfig;
use crate::gateway::Gateway;
use crate::gateway::asking::of_failure;
use crate::llm::{Endpoint, Failure, estimate};
use crate::observe::{Inquired, Response};

/// How long a search waits for the vectors of tools, and for its own.
const PATIENCE: Duration = Duration::from_secs(10);
const QUERY_PATIENCE: Duration = Duration::from_secs(2);
/// How many texts are asked for at once: few enough that a slow machine is done in time.
const BATCH: usize = 32;
/// How long the endpoint is left alone when it has failed, unless it wants more, and the most.
const REST: Duration = Duration::from_secs(30);
const LONGEST_REST: Duration = Duration::from_mins(10);
/// How much of a description is sent: what a tool is for, it says first.
const MAX_DESCRIPTION: usize = 2000;
/// The most texts that are known, and the most queries.
const MAX_TEXTS: usize = 20_000;
const MAX_QUERIES: u64 = 256;

/// What is sent of a tool.
pub(crate) fn text(server: &str, tool: &ToolDefinition) -> String {
    let description = tool.description.as_deref().unwrap_or_default();
    let description = &description[..description.floor_char_boundary(MAX_DESCRIPTION)];
    format!("{server} {}: {description}", tool.name)
}

/// Where the tools of one index point, once that is known.
#[derive(Debug, Default)]
pub(crate) struct Pointing(Mutex<Option<Arc<Vectors>>>);

impl Pointing {
    fn known(&self) -> MutexGuard<'_, Option<Arc<Vectors>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gateway {
    /// How near each tool of an index is to a query, by the model that the configuration names;
    /// `None` where it names none, or where the model does not say it in time. `texts` are those of
    /// the index's tools, in their order.
    pub(crate) async fn nearness(
        &self,
        query: &str,
        pointing: &Pointing,
        texts: impl FnOnce() -> Vec<String>,
    ) -> Option<Vec<f32>> {
        let embedding = self.embedding.as_ref()?;
        let query = query[..query.floor_char_boundary(MAX_QUERY)].trim();
        if query.is_empty() || embedding.rests() {
            return None;
        }
        let query = self.without_secrets(query);
        let clean = |text: String| self.without_secrets(&text).into_owned();
        let texts = || texts().into_iter().map(clean).collect();
        let nearness = embedding.nearness(&self.pool, &query, pointing, texts).await;
        match &nearness {
            Ok(None) => {}
            Ok(Some(_)) => embedding.note(None),
            Err(failure) => embedding.note(Some(failure)),
        }
        nearness.unwrap_or_default()
    }
}

/// The model that says what texts mean, the same for all gateways with the same configuration.
#[derive(Default)]
pub(crate) struct Embeddings(Mutex<Option<Arc<Embedding>>>);

impl Embeddings {
    /// That of a configuration, if it names one.
    pub(crate) fn of(&self, config: &SearchConfig) -> Option<Arc<Embedding>> {
        let config = config.embeddings.as_ref()?;
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(current) = current.as_ref().filter(|it| it.endpoint.config() == config) {
            return Some(Arc::clone(current));
        }
        match Endpoint::new(config) {
            Ok(endpoint) => *current = Some(Arc::new(Embedding::new(endpoint))),
            Err(failure) => {
                tracing::warn!(%failure, "`search.embeddings` cannot be used");
                *current = None;
            }
        }
        current.clone()
    }
}

/// A model that says what texts mean.
pub(crate) struct Embedding {
    endpoint: Endpoint,
    /// What the store calls it.
    name: String,
    known: Mutex<Known>,
    queries: Cache<TextKey, Arc<Vector>>,
    /// Whoever has it asks for tools, so that none is asked for twice.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Known {
    texts: KnownTexts,
    /// Whether the store has been asked.
    is_recalled: bool,
    /// Whether there is something that the store does not have.
    is_new: bool,
    rests_until: Option<Instant>,
    has_failed: bool,
}

impl Embedding {
    fn new(endpoint: Endpoint) -> Self {
        let config = endpoint.config();
        Self {
            name: format!("{} {}", config.base_url, config.model),
            endpoint,
            known: Mutex::default(),
            queries: Cache::new(MAX_QUERIES),
            turn: tokio::sync::Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is left alone for now.
    fn rests(&self) -> bool {
        self.known().rests_until.is_some_and(|until| Instant::now() < until)
    }

    /// Takes note of what became of asking it, and says in the log what has changed.
    fn note(&self, failure: Option<&Failure>) {
        let mut known = self.known();
        let had_failed = std::mem::replace(&mut known.has_failed, failure.is_some());
        let Some(failure) = failure else {
            if had_failed {
                tracing::info!("`search.embeddings` is used again");
            }
            return;
        };
        let rest = match failure.plain() {
            Failure::TooOften(Some(wait)) => (*wait).clamp(REST, LONGEST_REST),
            _ => REST,
        };
        known.rests_until = Some(Instant::now() + rest);
        if !had_failed {
            tracing::warn!(%failure, "tools are found without `search.embeddings`");
        }
    }

    /// How near each tool is; `None` where that takes longer than anybody waits.
    async fn nearness(
        &self,
        pool: &Pool,
        query: &str,
        pointing: &Pointing,
        texts: impl FnOnce() -> Vec<String>,
    ) -> Result<Option<Vec<f32>>, Failure> {
        let known = pointing.known().clone();
        let vectors = match known {
            Some(vectors) => vectors,
            None => match self.vectors(pool, &texts()).await? {
                Some(vectors) => {
                    *pointing.known() = Some(Arc::clone(&vectors));
                    vectors
                }
                None => return Ok(None),
            },
        };
        let query = self.query(pool, query).await?;
        let nearness = vectors.nearness(&query);
        if nearness.is_none() {
            *pointing.known() = None;
            return Err(self.other_model());
        }
        Ok(nearness)
    }

    async fn query(&self, pool: &Pool, query: &str) -> Result<Arc<Vector>, Failure> {
        let key = text_key(query);
        if let Some(known) = self.queries.get(&key) {
            return Ok(known);
        }
        let until = Instant::now() + QUERY_PATIENCE;
        let vectors = self.embed(pool, &[query], until, "query").await?;
        let vector = Arc::new(Vector::of(&vectors.concat()));
        self.queries.insert(key, Arc::clone(&vector));
        Ok(vector)
    }

    /// Where tools point that are described so.
    async fn vectors(
        &self,
        pool: &Pool,
        texts: &[String],
    ) -> Result<Option<Arc<Vectors>>, Failure> {
        let until = Instant::now() + PATIENCE;
        let texts: Vec<&str> =
            BACKGROUND.into_iter().chain(texts.iter().map(String::as_str)).collect();
        let keys: Vec<TextKey> = texts.iter().map(|text| text_key(text)).collect();
        if keys.len() > MAX_TEXTS {
            tracing::debug!(tools = keys.len(), "too many tools for `search.embeddings`");
            return Ok(None);
        }
        let Ok(_turn) = timeout_at(until, self.turn.lock()).await else { return Ok(None) };
        if self.rests() {
            // Whoever had the turn before has found out that it is no use.
            return Ok(None);
        }
        self.recall(pool).await;
        let asked = self.ask(pool, &texts, &keys, until).await;
        self.keep(pool).await;
        if !asked? {
            return Ok(None);
        }
        let vectors: Option<Vec<_>> = {
            let known = self.known();
            keys.iter().map(|key| known.texts.get(key).cloned()).collect()
        };
        let vectors = vectors.unwrap_or_default();
        let (background, tools) = vectors.split_at(BACKGROUND.len().min(vectors.len()));
        let background: Vec<&Vector> = background.iter().map(|vector| &**vector).collect();
        let vectors = Vectors::new(&background, tools.iter().map(|vector| &**vector));
        vectors.map(|vectors| Some(Arc::new(vectors))).ok_or_else(|| self.other_model())
    }

    /// Asks for what is not known; whether all of it came in time.
    async fn ask(
        &self,
        pool: &Pool,
        texts: &[&str],
        keys: &[TextKey],
        until: Instant,
    ) -> Result<bool, Failure> {
        let missing: Vec<(TextKey, &str)> = {
            let mut known = self.known();
            if known.texts.len() + keys.len() > MAX_TEXTS {
                let wanted: HashSet<&TextKey> = keys.iter().collect();
                known.texts.retain(|key, _| wanted.contains(key));
            }
            let mut seen = HashSet::new();
            let texts = keys.iter().copied().zip(texts.iter().copied());
            texts.filter(|(key, _)| !known.texts.contains_key(key) && seen.insert(*key)).collect()
        };
        for (number, batch) in missing.chunks(BATCH).enumerate() {
            let texts: Vec<&str> = batch.iter().map(|(_, text)| *text).collect();
            let vectors = match self.embed(pool, &texts, until, "tools").await {
                Ok(vectors) => vectors,
                // It goes on with the next search.
                Err(Failure::TimedOut) if number > 0 => return Ok(false),
                Err(failure) => return Err(failure),
            };
            let mut known = self.known();
            known.is_new = true;
            let vectors = vectors.iter().map(|vector| Arc::new(Vector::of(vector)));
            known.texts.extend(batch.iter().map(|(key, _)| *key).zip(vectors));
        }
        Ok(true)
    }

    /// Asks the endpoint, and keeps an account of it. It is asked for whoever searches.
    async fn embed(
        &self,
        pool: &Pool,
        texts: &[&str],
        until: Instant,
        purpose: &'static str,
    ) -> Result<Vec<Vec<f32>>, Failure> {
        let model = &self.endpoint.config().model;
        let audit = pool.observer().current_audit();
        let asked = Inquired { agent: None, session: 0, model, purpose };
        let mut inquiry = pool.observer().inquire(audit.as_ref(), asked);
        inquiry.tokens = [texts.iter().map(|text| estimate(text.len())).sum(), 0];
        let embedded = self.endpoint.embed(texts, until).await;
        inquiry.end(embedded.as_ref().map_or_else(of_failure, |_| Response::Ok));
        embedded
    }

    /// What is known belongs to another model, of the same name.
    fn other_model(&self) -> Failure {
        self.known().texts.clear();
        self.queries.invalidate_all();
        Failure::Unusable("its vectors are not of one length".to_owned())
    }

    async fn recall(&self, pool: &Pool) {
        if self.known().is_recalled {
            return;
        }
        let name = self.name.clone();
        let kept = pool.with_store(move |store| store.vectors(&name)).await.unwrap_or_default();
        let mut known = self.known();
        known.is_recalled = true;
        known.texts.extend(kept);
    }

    async fn keep(&self, pool: &Pool) {
        let (name, texts) = {
            let mut known = self.known();
            if !std::mem::take(&mut known.is_new) {
                return;
            }
            (self.name.clone(), known.texts.clone())
        };
        let kept = pool.with_store(move |store| store.keep_vectors(&name, &texts)).await;
        if let Some(Err(error)) = kept {
            tracing::debug!(%error, "vectors cannot be kept");
        }
    }
}

#[cfg(test)]
mod tests;
