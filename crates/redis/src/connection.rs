//! A connection to the store, with timeouts for connecting and for each command.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, FromRedisValue, RedisError, Value, cmd};
use tokio::time::timeout;

use crate::scripts::Script;

/// Maximum number of queued commands.
const WAITING: usize = 1024;

/// Timeouts for the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreTimeouts {
    pub connect: Duration,
    /// For a response that a caller waits for.
    pub response: Duration,
    /// For background work, and for responses that may be large.
    pub bulk: Duration,
}

impl Default for StoreTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(2),
            response: Duration::from_millis(50),
            bulk: Duration::from_millis(500),
        }
    }
}

#[derive(Debug)]
pub(crate) enum RedisCommandError {
    /// No response within this time.
    TimedOut(Duration),
    /// The connection failed, or the server returned an error.
    Failed(RedisError),
    /// The key holds a value of another type.
    WrongType,
}

impl RedisCommandError {
    /// Returns the reason as one line of at most 300 characters, without passwords.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::TimedOut(limit) => format!("no response within {} ms", limit.as_millis()),
            Self::Failed(error) => reason(error),
            Self::WrongType => "the key holds a value of another type (WRONGTYPE)".to_owned(),
        }
    }
}

fn reason(error: &RedisError) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.chars().filter(|c| !c.is_control()).take(300).collect()
}

/// Connects within `limits.connect`. The timeout of the client isn't enough: it waits forever for a
/// server that doesn't speak TLS.
pub(crate) async fn connect(
    client: &Client,
    limits: &StoreTimeouts,
) -> Result<MultiplexedConnection, String> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(limits.connect))
        .set_response_timeout(Some(limits.connect))
        .set_pipeline_buffer_size(WAITING);
    let connected = client.get_multiplexed_async_connection_with_config(&config);
    match timeout(limits.connect, connected).await {
        Ok(connected) => connected.map_err(|error| reason(&error)),
        Err(_) => Err(format!("no connection within {} ms", limits.connect.as_millis())),
    }
}

pub(crate) async fn with_timeout<T: FromRedisValue>(
    limit: Duration,
    answer: impl Future<Output = Result<Value, RedisError>>,
) -> Result<T, RedisCommandError> {
    let Ok(answer) = timeout(limit, answer).await else {
        return Err(RedisCommandError::TimedOut(limit));
    };
    match answer.and_then(Value::extract_error) {
        Ok(value) => redis::from_redis_value(value).map_err(|_| RedisCommandError::WrongType),
        Err(error) if error.code() == Some("WRONGTYPE") => Err(RedisCommandError::WrongType),
        Err(error) => Err(RedisCommandError::Failed(error)),
    }
}

/// Runs a script on one key. Sends its code only if the server doesn't have it cached.
pub(crate) async fn eval_script(
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
