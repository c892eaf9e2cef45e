//! Semantic search with an embedding model (`search.embeddings`), instead of the built-in table.
//!
//! Each tool text is embedded once, at the first search that needs it, and cached in memory and in
//! the listing store. Texts come from views, so the endpoint only sees tools that the agent may
//! see. A search waits a limited time; vectors that arrive by then serve the next search. All
//! queries of a search go out in one request, so that they are scored either all by the model or
//! all by the table.
//!
//! On failure, search falls back to the table, logs a warning once and backs off.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use parking_lot::{Mutex, MutexGuard};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use crate::backend::{KnownTexts, Pool, TextKey, text_key};
use crate::catalog::ToolDefinition;
use crate::catalog::rank::{BACKGROUND, CenteredVectors, QuantizedVector};
use crate::gateway::models::of_failure;
use crate::llm::{Endpoint, LlmError, tokens_from_bytes};
use crate::telemetry::{LlmOutcome, LlmRequestGuard, LlmRequestInfo};
use mcp_workbench_settings::SearchConfig;

/// How long a search waits for the vectors of tools, and of its queries.
const TIMEOUT: Duration = Duration::from_secs(10);
const QUERY_PATIENCE: Duration = Duration::from_secs(2);
/// Texts per request, few enough for a slow machine to finish in time.
const BATCH: usize = 32;
/// Backoff after a failure, unless the endpoint asks for longer, and its upper bound.
const MIN_BACKOFF: Duration = Duration::from_secs(30);
const LONGEST_REST: Duration = Duration::from_mins(10);
/// Bytes of a description that are sent. Descriptions state their purpose first.
const MAX_DESCRIPTION: usize = 2000;
const MAX_TEXTS: usize = 20_000;
const MAX_QUERIES: u64 = 256;

pub(crate) fn text(server: &str, tool: &ToolDefinition) -> String {
    let description = tool.description.as_deref().unwrap_or_default();
    let description = &description[..description.floor_char_boundary(MAX_DESCRIPTION)];
    format!("{server} {}: {description}", tool.name)
}

#[derive(Debug)]
pub(crate) struct IndexVectors {
    tools: usize,
    known: Mutex<Option<Arc<CenteredVectors>>>,
}

impl IndexVectors {
    pub(crate) fn of(tools: usize) -> Self {
        Self { tools, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Option<Arc<CenteredVectors>>> {
        self.known.lock()
    }
}

#[derive(Default)]
pub(crate) struct EmbeddingModels(Mutex<Option<Arc<EmbeddingModel>>>);

impl EmbeddingModels {
    /// Returns the model that `config` names. A changed `search.embeddings` replaces the last one.
    pub(crate) fn of(&self, config: &SearchConfig) -> Option<Arc<EmbeddingModel>> {
        let config = config.embeddings.as_ref()?;
        let mut current = self.0.lock();
        if let Some(current) = current.as_ref().filter(|it| it.endpoint.config() == config) {
            return Some(Arc::clone(current));
        }
        match Endpoint::new(config) {
            Ok(endpoint) => *current = Some(Arc::new(EmbeddingModel::new(endpoint))),
            Err(failure) => {
                tracing::warn!(%failure, "`search.embeddings` is unavailable");
                *current = None;
            }
        }
        current.clone()
    }
}

pub(crate) struct EmbeddingModel {
    endpoint: Endpoint,
    /// Key of its vectors in the store.
    name: String,
    known: Mutex<EmbeddingState>,
    queries: Cache<TextKey, Arc<QuantizedVector>>,
    /// Held while embedding tools, so that no text is requested twice.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct EmbeddingState {
    texts: KnownTexts,
    is_recalled: bool,
    is_new: bool,
    rests_until: Option<Instant>,
    has_failed: bool,
}

impl EmbeddingModel {
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

    fn known(&self) -> MutexGuard<'_, EmbeddingState> {
        self.known.lock()
    }

    pub(crate) fn model(&self) -> &str {
        &self.endpoint.config().model
    }

    pub(crate) fn is_backing_off(&self) -> bool {
        self.known().rests_until.is_some_and(|until| Instant::now() < until)
    }

    pub(crate) fn note(&self, failure: Option<&LlmError>) {
        let mut known = self.known();
        let had_failed = std::mem::replace(&mut known.has_failed, failure.is_some());
        let Some(failure) = failure else {
            if had_failed {
                tracing::info!("`search.embeddings` works again");
            }
            return;
        };
        let rest = match failure.plain() {
            LlmError::RateLimited(Some(wait)) => (*wait).clamp(MIN_BACKOFF, LONGEST_REST),
            _ => MIN_BACKOFF,
        };
        known.rests_until = Some(Instant::now() + rest);
        if !had_failed {
            tracing::warn!(%failure, "`search.embeddings` failed; searches continue without it");
        }
    }

    pub(crate) async fn nearness(
        &self,
        pool: &Pool,
        queries: &[Cow<'_, str>],
        pointing: &IndexVectors,
        texts: impl FnOnce() -> Vec<(TextKey, String)> + Send + 'static,
    ) -> Result<Option<Vec<Vec<f32>>>, LlmError> {
        let Some(vectors) = self.vectors(pool, pointing, texts).await? else { return Ok(None) };
        let queries = self.queries(pool, queries).await?;
        let nearness = run_blocking(move || {
            let near = |query: &Option<Arc<QuantizedVector>>| match query {
                Some(query) => vectors.similarities_to(query),
                None => Some(Vec::new()),
            };
            queries.iter().map(near).collect::<Option<Vec<_>>>()
        });
        let Some(nearness) = nearness.await else { return Ok(None) };
        if nearness.is_none() {
            *pointing.known() = None;
            return Err(self.other_model());
        }
        Ok(nearness)
    }

    async fn queries(
        &self,
        pool: &Pool,
        queries: &[Cow<'_, str>],
    ) -> Result<Vec<Option<Arc<QuantizedVector>>>, LlmError> {
        let mut known: HashMap<TextKey, Arc<QuantizedVector>> = HashMap::new();
        let mut missing: Vec<(TextKey, &str)> = Vec::new();
        for query in queries.iter().filter(|query| !query.is_empty()) {
            let key = text_key(query);
            match self.queries.get(&key) {
                Some(vector) => drop(known.insert(key, vector)),
                None if missing.iter().any(|(other, _)| *other == key) => {}
                None => missing.push((key, query)),
            }
        }
        if !missing.is_empty() {
            let until = Instant::now() + QUERY_PATIENCE;
            let texts: Vec<&str> = missing.iter().map(|(_, query)| *query).collect();
            let vectors = self.embed(pool, &texts, until, "query").await?;
            for ((key, _), vector) in missing.into_iter().zip(vectors) {
                let vector = Arc::new(QuantizedVector::of(&vector));
                self.queries.insert(key, Arc::clone(&vector));
                known.insert(key, vector);
            }
        }
        Ok(queries.iter().map(|query| known.get(&text_key(query)).cloned()).collect())
    }

    async fn vectors(
        &self,
        pool: &Pool,
        pointing: &IndexVectors,
        texts: impl FnOnce() -> Vec<(TextKey, String)> + Send + 'static,
    ) -> Result<Option<Arc<CenteredVectors>>, LlmError> {
        let known = || pointing.known().clone();
        if let Some(known) = known() {
            return Ok(Some(known));
        }
        if BACKGROUND.len() + pointing.tools > MAX_TEXTS {
            tracing::debug!(pointing.tools, "too many tools for `search.embeddings`");
            return Ok(None);
        }
        let until = Instant::now() + TIMEOUT;
        let Ok(_turn) = timeout_at(until, self.turn.lock()).await else { return Ok(None) };
        // The previous holder may have loaded these vectors or run into a failure.
        if let Some(known) = known() {
            return Ok(Some(known));
        }
        if self.is_backing_off() {
            return Ok(None);
        }
        let Some(texts) = run_blocking(texts).await else { return Ok(None) };
        self.recall(pool).await;
        let asked = self.ask(pool, &texts, until).await;
        self.keep(pool);
        if !asked? {
            return Ok(None);
        }
        let vectors: Option<Vec<_>> = {
            let known = self.known();
            texts.iter().map(|(key, _)| known.texts.get(key).cloned()).collect()
        };
        let vectors = vectors.unwrap_or_default();
        let seen = run_blocking(move || {
            let mut vectors = vectors.iter().map(|vector| &**vector);
            let background: Vec<&QuantizedVector> =
                vectors.by_ref().take(BACKGROUND.len()).collect();
            CenteredVectors::new(&background, vectors).map(Arc::new)
        });
        let Some(vectors) = seen.await else { return Ok(None) };
        let vectors = vectors.ok_or_else(|| self.other_model())?;
        *pointing.known() = Some(Arc::clone(&vectors));
        Ok(Some(vectors))
    }

    /// Embeds the texts that aren't cached. Returns `false` if time ran out before the last batch.
    async fn ask(
        &self,
        pool: &Pool,
        texts: &[(TextKey, String)],
        until: Instant,
    ) -> Result<bool, LlmError> {
        let missing: Vec<&(TextKey, String)> = {
            let mut known = self.known();
            if known.texts.len() + texts.len() > MAX_TEXTS {
                let wanted: HashSet<&TextKey> = texts.iter().map(|(key, _)| key).collect();
                known.texts.retain(|key, _| wanted.contains(key));
            }
            let mut seen = HashSet::new();
            let mut is_missing =
                |key: &TextKey| !known.texts.contains_key(key) && seen.insert(*key);
            texts.iter().filter(|(key, _)| is_missing(key)).collect()
        };
        for (number, batch) in missing.chunks(BATCH).enumerate() {
            let texts: Vec<&str> = batch.iter().map(|(_, text)| text.as_str()).collect();
            let vectors = match self.embed(pool, &texts, until, "tools").await {
                Ok(vectors) => vectors,
                // The next search continues from here.
                Err(LlmError::TimedOut) if number > 0 => return Ok(false),
                Err(failure) => return Err(failure),
            };
            let mut known = self.known();
            known.is_new = true;
            let vectors = vectors.iter().map(|vector| Arc::new(QuantizedVector::of(vector)));
            known.texts.extend(batch.iter().map(|(key, _)| *key).zip(vectors));
        }
        Ok(true)
    }

    /// Calls the endpoint and records the request, without an agent because all of them share its
    /// vectors.
    async fn embed(
        &self,
        pool: &Pool,
        texts: &[&str],
        until: Instant,
        purpose: &'static str,
    ) -> Result<Vec<Vec<f32>>, LlmError> {
        let model = &self.endpoint.config().model;
        let listeners = pool.observer().bus();
        let prompted = LlmRequestInfo { agent: None, session: 0, model, purpose };
        let mut request = LlmRequestGuard::begin(&listeners, prompted);
        request.context.tokens = [texts.iter().map(|text| tokens_from_bytes(text.len())).sum(), 0];
        let embedded = self.endpoint.embed(texts, until).await;
        request.end(embedded.as_ref().map_or_else(of_failure, |_| LlmOutcome::Ok));
        embedded
    }

    /// Clears the cache: its vectors come from another model of the same name.
    fn other_model(&self) -> LlmError {
        self.known().texts.clear();
        self.queries.invalidate_all();
        LlmError::Unusable("the vectors have different lengths".to_owned())
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

    fn keep(&self, pool: &Pool) {
        let mut known = self.known();
        if std::mem::take(&mut known.is_new) {
            let (name, texts) = (self.name.clone(), known.texts.clone());
            pool.with_store_later(move |store| {
                if let Err(error) = store.keep_vectors(&name, &texts) {
                    tracing::debug!(%error, "failed to cache vectors");
                }
            });
        }
    }
}

/// Runs CPU-bound work on a blocking thread. Returns `None` if it panicked.
async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let done = spawn_blocking(work).await;
    done.inspect_err(|error| tracing::error!(%error, "internal error in `search.embeddings`")).ok()
}

#[cfg(test)]
mod tests;
