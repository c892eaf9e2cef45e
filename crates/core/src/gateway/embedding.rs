//! A model that says what texts mean, in place of the table that is compiled in
//! (`search.embeddings`).
//!
//! *Theory of operation.* Tools are asked for when somebody searches them, each text once: what is
//! known is kept in memory and in the store. Whoever asks has made the texts of views, so that the
//! endpoint is told of nothing that the agent may not see. A search waits for a while, and what came
//! until then is there for the next one. All queries of a search are asked for at once, so that it is
//! the model that counts for all of them, or the table. Whatever fails costs the search the model and
//! not the search: the table counts then, the log says so once, and the endpoint is left alone for a
//! while.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use moka::sync::Cache;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use crate::backend::{KnownTexts, Pool, TextKey, text_key};
use crate::catalog::ToolDefinition;
use crate::catalog::rank::{BACKGROUND, MAX_QUERY, Vector, Vectors};
use crate::gateway::asking::of_failure;
use crate::gateway::opening::while_waiting;
use crate::gateway::{Gateway, RequestContext};
use crate::llm::{Endpoint, Failure, estimate};
use crate::observe::{LlmOutcome, Prompted};
use crate::settings::SearchConfig;

/// How long a search waits for the vectors of tools, and for those of its queries.
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

/// Returns the text that is sent of a tool.
pub(crate) fn text(server: &str, tool: &ToolDefinition) -> String {
    let description = tool.description.as_deref().unwrap_or_default();
    let description = &description[..description.floor_char_boundary(MAX_DESCRIPTION)];
    format!("{server} {}: {description}", tool.name)
}

/// Where the tools of one index point, once that is known.
#[derive(Debug)]
pub(crate) struct Pointing {
    tools: usize,
    known: Mutex<Option<Arc<Vectors>>>,
}

impl Pointing {
    /// Nothing is known of so many tools.
    pub(crate) fn of(tools: usize) -> Self {
        Self { tools, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Option<Arc<Vectors>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gateway {
    /// How near each tool of an index is to each of these queries, by the model that the
    /// configuration names; `None` where it names none, or where the model does not say it of all of
    /// them in time. `texts` are those of the index's tools, in their order.
    pub(crate) async fn nearness(
        &self,
        queries: &[&str],
        pointing: &Pointing,
        texts: impl FnOnce() -> Vec<String> + Send + 'static,
        context: &RequestContext<'_>,
    ) -> Option<Vec<Vec<f32>>> {
        let embedding = self.embedding.as_ref()?;
        if embedding.rests() {
            return None;
        }
        let queries = queries.iter().map(|query| {
            let start = &query[..query.floor_char_boundary(MAX_QUERY)];
            self.without_secrets(start.trim())
        });
        let queries: Vec<_> = queries.collect();
        let secrets = self.secrets().clone();
        let texts = move || {
            let texts = BACKGROUND.map(str::to_owned).into_iter().chain(texts());
            let clean = |text: String| secrets.redact_written(&text).into_owned();
            texts.map(clean).map(|text| (text_key(&text), text)).collect()
        };
        let waiting = || format!("waiting for the model `{}`", embedding.endpoint.config().model);
        let asking = embedding.nearness(&self.pool, &queries, pointing, texts);
        let nearness = Box::pin(while_waiting(waiting, context, asking)).await;
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
    /// Returns the embedding of a configuration, if it names one.
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
    /// Its name in the store.
    name: String,
    known: Mutex<Known>,
    queries: Cache<TextKey, Arc<Vector>>,
    /// Whoever has it asks for tools, so that none is asked for twice.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Known {
    texts: KnownTexts,
    /// `true` if the store has been asked.
    is_recalled: bool,
    /// `true` if there is something that the store does not have.
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

    /// Returns `true` if it is left alone for now.
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

    /// How near each tool is to each query; `None` where that takes longer than anybody waits.
    async fn nearness(
        &self,
        pool: &Pool,
        queries: &[Cow<'_, str>],
        pointing: &Pointing,
        texts: impl FnOnce() -> Vec<(TextKey, String)> + Send + 'static,
    ) -> Result<Option<Vec<Vec<f32>>>, Failure> {
        let Some(vectors) = self.vectors(pool, pointing, texts).await? else { return Ok(None) };
        let queries = self.queries(pool, queries).await?;
        let nearness = beside(move || {
            let near = |query: &Option<Arc<Vector>>| match query {
                Some(query) => vectors.nearness(query),
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

    /// Where queries point; one that says nothing points nowhere.
    async fn queries(
        &self,
        pool: &Pool,
        queries: &[Cow<'_, str>],
    ) -> Result<Vec<Option<Arc<Vector>>>, Failure> {
        let mut known: HashMap<TextKey, Arc<Vector>> = HashMap::new();
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
                let vector = Arc::new(Vector::of(&vector));
                self.queries.insert(key, Arc::clone(&vector));
                known.insert(key, vector);
            }
        }
        Ok(queries.iter().map(|query| known.get(&text_key(query)).cloned()).collect())
    }

    /// Where the tools of an index point.
    async fn vectors(
        &self,
        pool: &Pool,
        pointing: &Pointing,
        texts: impl FnOnce() -> Vec<(TextKey, String)> + Send + 'static,
    ) -> Result<Option<Arc<Vectors>>, Failure> {
        let known = || pointing.known().clone();
        if let Some(known) = known() {
            return Ok(Some(known));
        }
        if BACKGROUND.len() + pointing.tools > MAX_TEXTS {
            tracing::debug!(pointing.tools, "too many tools for `search.embeddings`");
            return Ok(None);
        }
        let until = Instant::now() + PATIENCE;
        let Ok(_turn) = timeout_at(until, self.turn.lock()).await else { return Ok(None) };
        // Whoever had the turn before has found it, or has found out that it is no use.
        if let Some(known) = known() {
            return Ok(Some(known));
        }
        if self.rests() {
            return Ok(None);
        }
        let Some(texts) = beside(texts).await else { return Ok(None) };
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
        let seen = beside(move || {
            let mut vectors = vectors.iter().map(|vector| &**vector);
            let background: Vec<&Vector> = vectors.by_ref().take(BACKGROUND.len()).collect();
            Vectors::new(&background, vectors).map(Arc::new)
        });
        let Some(vectors) = seen.await else { return Ok(None) };
        let vectors = vectors.ok_or_else(|| self.other_model())?;
        *pointing.known() = Some(Arc::clone(&vectors));
        Ok(Some(vectors))
    }

    /// Asks for what is not known; whether all of it came in time.
    async fn ask(
        &self,
        pool: &Pool,
        texts: &[(TextKey, String)],
        until: Instant,
    ) -> Result<bool, Failure> {
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
        let listeners = pool.observer().listeners();
        let prompted = Prompted { agent: None, session: 0, model, purpose };
        let mut request = listeners.begin_llm_request(prompted);
        request.context.tokens = [texts.iter().map(|text| estimate(text.len())).sum(), 0];
        let embedded = self.endpoint.embed(texts, until).await;
        request.end(embedded.as_ref().map_or_else(of_failure, |_| LlmOutcome::Ok));
        embedded
    }

    /// Forgets all, for what is known belongs to another model of the same name.
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

    /// Has the store keep what is new; nobody waits for it.
    fn keep(&self, pool: &Pool) {
        let mut known = self.known();
        if std::mem::take(&mut known.is_new) {
            let (name, texts) = (self.name.clone(), known.texts.clone());
            pool.with_store_later(move |store| {
                if let Err(error) = store.keep_vectors(&name, &texts) {
                    tracing::debug!(%error, "vectors cannot be kept");
                }
            });
        }
    }
}

/// Does what takes a while beside the tasks that serve agents; `None` if it was lost.
async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let done = spawn_blocking(work).await;
    done.inspect_err(|error| tracing::error!(%error, "work for `search.embeddings` was lost")).ok()
}

#[cfg(test)]
mod tests;
