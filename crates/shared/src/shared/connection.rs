//! One connection to the store, and what is asked through it: each question has a limit of our own.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, FromRedisValue, RedisError, Value, cmd};
use tokio::time::timeout;

use crate::shared::scripts::Script;

/// How many questions may wait for being sent.
const WAITING: usize = 1024;

/// How long the store is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For a connection.
    pub connect: Duration,
    /// For an answer that somebody waits for.
    pub answer: Duration,
    /// For an answer that nobody waits for, or that may be long.
    pub bulk: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(2),
            answer: Duration::from_millis(50),
            bulk: Duration::from_millis(500),
        }
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// It did not come in time.
    Late(Duration),
    /// The connection has failed, or the server refuses to do it.
    Failed(RedisError),
    /// Something is there that is not ours.
    Foreign,
}

impl Unanswered {
    /// The reason, in one line that is not long and has no password in it.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Late(limit) => format!("it has not answered within {} ms", limit.as_millis()),
            Self::Failed(error) => reason(error),
            Self::Foreign => "something that is not ours is in the way".to_owned(),
        }
    }
}

fn reason(error: &RedisError) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.chars().filter(|c| !c.is_control()).take(300).collect()
}

/// Connects to a store, within a limit of our own: the client waits for ever for a server that does not
/// speak TLS.
pub(crate) async fn connect(
    client: &Client,
    limits: &Limits,
) -> Result<MultiplexedConnection, String> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(limits.connect))
        .set_response_timeout(Some(limits.connect))
        .set_pipeline_buffer_size(WAITING);
    let connected = client.get_multiplexed_async_connection_with_config(&config);
    match timeout(limits.connect, connected).await {
        Ok(connected) => connected.map_err(|error| reason(&error)),
        Err(_) => Err(format!("no connection came about within {} ms", limits.connect.as_millis())),
    }
}

/// Waits for an answer, and reads it.
pub(crate) async fn within<T: FromRedisValue>(
    limit: Duration,
    answer: impl Future<Output = Result<Value, RedisError>>,
) -> Result<T, Unanswered> {
    let Ok(answer) = timeout(limit, answer).await else { return Err(Unanswered::Late(limit)) };
    match answer.and_then(Value::extract_error) {
        Ok(value) => redis::from_redis_value(value).map_err(|_| Unanswered::Foreign),
        Err(error) if error.code() == Some("WRONGTYPE") => Err(Unanswered::Foreign),
        Err(error) => Err(Unanswered::Failed(error)),
    }
}

/// Runs a script on one key; it is sent where the store does not know it yet.
pub(crate) async fn run(
    mut connection: MultiplexedConnection,
    script: &Script,
    key: &str,
    arguments: &[&[u8]],
) -> Result<Value, RedisError> {
    let by = |word: &str, script: &str| {
        let mut asked = cmd(word);
        asked.arg(script).arg(1).arg(key).arg(arguments);
        asked
    };
    let answer = connection.send_packed_command(&by("EVALSHA", &script.hash)).await;
    match answer.and_then(Value::extract_error) {
        Err(error) if error.code() == Some("NOSCRIPT") => {
            connection.send_packed_command(&by("EVAL", script.code)).await
        }
        answer => answer,
    }
}
