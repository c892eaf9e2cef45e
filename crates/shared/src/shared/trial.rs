//! The trial of a store: whether it does everything that is wanted of it.

use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, Value, cmd};

use crate::shared::address::{Address, Unusable};
use crate::shared::connection::{Limits, connect, run, within};
use crate::shared::keys::Keys;
use crate::shared::names::{Names, hex};
use crate::shared::scripts::TRY;

/// How long a key of a trial is there when nobody removes it, in milliseconds.
const TRIAL_MS: u32 = 10_000;

/// The outcome of the trial of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// The name and the version of the server, where it says them.
    pub version: Option<String>,
    /// `true` if all that is said there is encrypted.
    pub is_encrypted: bool,
    /// How many keys there are, with which it keeps what is sealed; each was tried.
    pub keys: usize,
    /// How long it took to answer one question.
    pub latency: Duration,
}

/// Connects to a store and tries out everything that is wanted of it: to write, read and remove a key, and to
/// run a script.
///
/// # Errors
///
/// When it does not do one of them; the reason has no password in it.
pub async fn try_out(address: &Address, limits: &Limits) -> Result<Trial, Unusable> {
    let wrong = |reason: String| Unusable(format!("the shared store {address}: {reason}"));
    let names = Names::new(&address.prefix);
    let connection = connect(&address.client, limits).await.map_err(wrong)?;
    let latency = trial(&connection, &names, limits).await.map_err(wrong)?;
    if let Some(keys) = &address.keys {
        let name = names.trial("sealed");
        sealed(&connection, &name, keys, limits).await.map_err(wrong)?;
    }
    // A user may be forbidden to ask that.
    let told = ask::<String>(&connection, cmd("INFO").arg("server").clone(), limits.answer).await;
    let version = told.ok().and_then(|told| version(&told));
    let keys = address.keys.as_ref().map_or(0, |keys| keys.count());
    Ok(Trial { version, is_encrypted: address.is_encrypted(), keys, latency })
}

/// Tries out what logins and listings want of a store, and whether what was sealed comes back whole.
async fn sealed(
    connection: &MultiplexedConnection,
    name: &str,
    keys: &Keys,
    limits: &Limits,
) -> Result<(), String> {
    let failed = |reason: String| format!("nothing can be kept sealed: {reason}");
    let text = keys.seal(name, b"trial").map_err(str::to_owned)?;
    let (list, limit) = (format!("{name}-list"), limits.answer);
    let set = cmd("SET").arg(name).arg(text).arg("PX").arg(TRIAL_MS).clone();
    let _: Value = ask(connection, set, limit).await.map_err(failed)?;
    let get = cmd("GETRANGE").arg(name).arg(0).arg(1024).clone();
    let found: Vec<u8> = ask(connection, get, limit).await.map_err(failed)?;
    for (command, argument) in [("SADD", "x"), ("SRANDMEMBER", "1"), ("SREM", "x")] {
        let asked = cmd(command).arg(&list).arg(argument).clone();
        let _: Value = ask(connection, asked, limit).await.map_err(failed)?;
    }
    let _: Value = ask(connection, cmd("DEL").arg(name).clone(), limit).await.map_err(failed)?;
    // Others may be trying it, too.
    if found.is_empty() || keys.open(name, &found).as_deref() == Some(b"trial") {
        Ok(())
    } else {
        Err("what was sealed did not come back whole".to_owned())
    }
}

/// The name and the version that a server tells of itself.
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

/// Tries out what is wanted of a store, and says how long one answer took.
pub(crate) async fn trial(
    connection: &MultiplexedConnection,
    names: &Names,
    limits: &Limits,
) -> Result<Duration, String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|error| error.to_string())?;
    let random = hex(&random);
    let key = names.trial(&random);
    let failed = |does: &'static str| move |reason: String| format!("{does}: {reason}");
    // The first answer comes late where names are looked up and the like.
    let _: Value = ask(connection, cmd("PING"), limits.connect).await?;
    let since = Instant::now();
    let _: Value = ask(connection, cmd("PING"), limits.answer).await?;
    let latency = since.elapsed();
    let set = cmd("SET").arg(&key).arg(&random).arg("PX").arg(TRIAL_MS).clone();
    let _: Value =
        ask(connection, set, limits.answer).await.map_err(failed("it cannot be written"))?;
    let read = within(limits.answer, run(connection.clone(), &TRY, &key, &[]));
    let read: Option<String> =
        read.await.map_err(|error| error.reason()).map_err(failed("it runs no scripts"))?;
    let get = cmd("GETDEL").arg(&key).clone();
    let taken: Option<String> =
        ask(connection, get, limits.answer).await.map_err(failed("nothing can be taken out"))?;
    if read.as_deref() == Some(&*random) && taken == read {
        Ok(latency)
    } else {
        Err("what was written was not there".to_owned())
    }
}

async fn ask<T: FromRedisValue>(
    connection: &MultiplexedConnection,
    asked: Cmd,
    limit: Duration,
) -> Result<T, String> {
    let mut connection = connection.clone();
    let answer = within(limit, async move { connection.send_packed_command(&asked).await }).await;
    answer.map_err(|error| error.reason())
}
