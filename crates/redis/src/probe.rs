//! Probes whether a store supports everything that the workbench needs.

use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, Value, cmd};

use crate::connection::{StoreTimeouts, connect, eval_script, with_timeout};
use crate::key_names::KeyNames;
use crate::scripts::PROBE;
use crate::sealing::SealingKeys;
use crate::target::{RedisConfigError, RedisTarget};

/// TTL of probe keys, in milliseconds.
const TRIAL_MS: u32 = 10_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeReport {
    /// Name and version of the server, if the user may read them.
    pub version: Option<String>,
    /// `true` if the connection uses TLS.
    pub is_encrypted: bool,
    /// Number of sealing keys; 0 if logins and listings aren't shared.
    pub keys: usize,
    /// Round-trip time of one command.
    pub latency: Duration,
}

/// Connects to a store and tries everything that the workbench needs: write, read and remove a key,
/// run a script, and if there are keys, the commands for sealed values.
///
/// # Errors
///
/// Returns an error if one step fails; the reason contains no password.
pub async fn probe(
    address: &RedisTarget,
    limits: &StoreTimeouts,
) -> Result<ProbeReport, RedisConfigError> {
    let wrong = |reason: String| RedisConfigError(format!("shared store {address}: {reason}"));
    let names = KeyNames::new(&address.prefix);
    let connection = connect(&address.client, limits).await.map_err(wrong)?;
    let latency = probe_connection(&connection, &names, limits).await.map_err(wrong)?;
    if let Some(keys) = &address.keys {
        let name = names.probe("sealed");
        sealed(&connection, &name, keys, limits).await.map_err(wrong)?;
    }
    // An ACL may forbid `INFO`.
    let told = ask::<String>(&connection, cmd("INFO").arg("server").clone(), limits.response).await;
    let version = told.ok().and_then(|told| version(&told));
    let keys = address.keys.as_ref().map_or(0, |keys| keys.count());
    Ok(ProbeReport { version, is_encrypted: address.is_encrypted(), keys, latency })
}

/// Tries the commands for logins and listings, and whether a sealed value can be opened again.
async fn sealed(
    connection: &MultiplexedConnection,
    name: &str,
    keys: &SealingKeys,
    limits: &StoreTimeouts,
) -> Result<(), String> {
    let failed = |reason: String| format!("cannot store encrypted values: {reason}");
    let text = keys.seal(name, b"trial").map_err(str::to_owned)?;
    let (list, limit) = (format!("{name}-list"), limits.response);
    let set = cmd("SET").arg(name).arg(text).arg("PX").arg(TRIAL_MS).clone();
    let _: Value = ask(connection, set, limit).await.map_err(failed)?;
    let get = cmd("GETRANGE").arg(name).arg(0).arg(1024).clone();
    let found: Vec<u8> = ask(connection, get, limit).await.map_err(failed)?;
    for (command, argument) in [("SADD", "x"), ("SRANDMEMBER", "1"), ("SREM", "x")] {
        let asked = cmd(command).arg(&list).arg(argument).clone();
        let _: Value = ask(connection, asked, limit).await.map_err(failed)?;
    }
    let _: Value = ask(connection, cmd("DEL").arg(name).clone(), limit).await.map_err(failed)?;
    // Concurrent probes use the same key: another one may have deleted it.
    if found.is_empty() || keys.open(name, &found).as_deref() == Some(b"trial") {
        Ok(())
    } else {
        Err("the store changed an encrypted value".to_owned())
    }
}

/// Extracts the name and version from the response to `INFO`.
fn version(told: &str) -> Option<String> {
    let of = |name: &str| {
        let mut lines = told.lines();
        let version = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        version.map(|version| version.chars().filter(char::is_ascii_graphic).take(32).collect())
    };
    let (name, version): (_, String) = match of("valkey_version") {
        Some(version) => ("Valkey", version),
        None => ("Redis", of("redis_version")?),
    };
    Some(format!("{name} {version}"))
}

/// Tries the basic commands, and returns the round-trip time of one.
pub(crate) async fn probe_connection(
    connection: &MultiplexedConnection,
    names: &KeyNames,
    limits: &StoreTimeouts,
) -> Result<Duration, String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| error.to_string())?;
    let random = hex::encode(random);
    let key = names.probe(&random);
    let failed = |does: &'static str| move |reason: String| format!("{does}: {reason}");
    // The first response can be slow, so it doesn't count as the latency.
    let _: Value = ask(connection, cmd("PING"), limits.connect).await?;
    let since = Instant::now();
    let _: Value = ask(connection, cmd("PING"), limits.response).await?;
    let latency = since.elapsed();
    let set = cmd("SET").arg(&key).arg(&random).arg("PX").arg(TRIAL_MS).clone();
    let _: Value = ask(connection, set, limits.response).await.map_err(failed("cannot write"))?;
    let read = with_timeout(limits.response, eval_script(connection.clone(), &PROBE, &key, &[]));
    let read: Option<String> =
        read.await.map_err(|error| error.reason()).map_err(failed("cannot run scripts"))?;
    let get = cmd("GETDEL").arg(&key).clone();
    let taken: Option<String> =
        ask(connection, get, limits.response).await.map_err(failed("cannot remove a key"))?;
    if read.as_deref() == Some(&*random) && taken == read {
        Ok(latency)
    } else {
        Err("the store did not return a written value".to_owned())
    }
}

async fn ask<T: FromRedisValue>(
    connection: &MultiplexedConnection,
    asked: Cmd,
    limit: Duration,
) -> Result<T, String> {
    let mut connection = connection.clone();
    let answer =
        with_timeout(limit, async move { connection.send_packed_command(&asked).await }).await;
    answer.map_err(|error| error.reason())
}
