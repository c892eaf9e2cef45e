//! Lua scripts. Each uses a single key.
//!
//! A script deletes a value of another type that is in its way, and validates numbers before it
//! uses them. The write that can fail for lack of memory comes first: after its first write, a
//! script may exceed `maxmemory`.

use std::sync::LazyLock;

/// A script with its SHA-1 hash for `EVALSHA`.
pub(crate) struct Script {
    pub(crate) code: &'static str,
    pub(crate) hash: String,
}

impl Script {
    fn new(code: &'static str) -> Self {
        Self { code, hash: redis::Script::new(code).get_hash().to_owned() }
    }
}

/// Counts a call with the generic cell rate algorithm. `ARGV`: maximum per minute. Returns 0, or
/// the microseconds to wait; the call is then not counted.
pub(crate) static GCRA: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local period = 60000000
local held = redis.pcall('GET', KEYS[1])
local clear = 0
if type(held) == 'string' then clear = tonumber(held) or 0 end
if clear ~= clear or clear > now + period then clear = 0 end
local after = math.max(now, clear) + math.floor(period / tonumber(ARGV[1]))
local wait = after - now - period
if wait > 0 then return wait end
redis.call('SET', KEYS[1], string.format('%.0f', after), 'PX', math.ceil((after - now) / 1000))
return 0
",
    )
});

/// Stores a session. `ARGV`: owner, epoch, TTL in milliseconds, text; with an empty text only the
/// ownership is stored. Returns 0 if another workbench owns the session or it has ended.
pub(crate) static PUT_SESSION: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local kind = redis.call('TYPE', KEYS[1])['ok']
if kind ~= 'hash' and kind ~= 'none' then redis.call('DEL', KEYS[1]) end
local held = redis.call('HMGET', KEYS[1], 'owner', 'epoch', 'over')
local epoch = tonumber(held[2] or '')
if held[3] then return 0 end
if held[1] and epoch and tonumber(ARGV[2]) <= epoch
  and not (held[1] == ARGV[1] and held[2] == ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'epoch', ARGV[2], 'text', ARGV[4])
if ARGV[4] == '' then redis.call('HDEL', KEYS[1], 'text') end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
",
    )
});

/// Extends the TTL of a session. `ARGV`: owner, epoch, TTL in milliseconds. Returns 1 on success, 0
/// if another workbench owns the session or it has ended, 2 if the record is missing or outdated
/// and must be put again.
pub(crate) static RENEW_SESSION: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
if redis.call('TYPE', KEYS[1])['ok'] ~= 'hash' then return 2 end
local held = redis.call('HMGET', KEYS[1], 'owner', 'epoch', 'over')
if held[3] then return 0 end
if held[1] == ARGV[1] and held[2] == ARGV[2] then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
  return 1
end
local epoch = tonumber(held[2] or '')
if not held[1] or not epoch or tonumber(ARGV[2]) > epoch then return 2 end
return 0
",
    )
});

/// Replaces a session with a tombstone, which prevents it from being put again. `ARGV`: owner,
/// epoch, TTL of the tombstone in milliseconds. Returns 0 if another workbench owns the session.
pub(crate) static END_SESSION: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
if redis.call('TYPE', KEYS[1])['ok'] ~= 'hash' then redis.call('DEL', KEYS[1]) end
local held = redis.call('HMGET', KEYS[1], 'owner', 'epoch', 'over')
local epoch = tonumber(held[2] or '')
if held[1] and epoch and tonumber(ARGV[2]) <= epoch
  and not (held[1] == ARGV[1] and held[2] == ARGV[2]) then return 0 end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'epoch', ARGV[2], 'over', '1')
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
",
    )
});

/// Returns a session's `ended` flag and its text. `ARGV`: maximum length of the text in bytes.
pub(crate) static GET_SESSION: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
if redis.call('TYPE', KEYS[1])['ok'] ~= 'hash' then return {'0'} end
if redis.call('HEXISTS', KEYS[1], 'over') == 1 then return {'1'} end
if redis.call('HSTRLEN', KEYS[1], 'text') > tonumber(ARGV[1]) then return {'0'} end
local text = redis.call('HGET', KEYS[1], 'text')
if text then return {'0', text} end
return {'0'}
",
    )
});

/// Adds a record to an index. `ARGV`: the entry, the record's hash, its TTL in milliseconds,
/// maximum number of entries, maximum number of bytes (a negative limit means unlimited). Removes
/// and returns the entries over the limits, oldest first.
///
/// Entry format: `<hash> <bytes> <owner> <session>`.
pub(crate) static INDEX_INSERT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local kind = redis.call('TYPE', KEYS[1])['ok']
if kind ~= 'zset' and kind ~= 'none' then redis.call('DEL', KEYS[1]) end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local count, bytes = tonumber(ARGV[4]), tonumber(ARGV[5])
redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[3] * 1000), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
local there = redis.call('ZCARD', KEYS[1])
if count < 0 then count = there end
local gone = {}
if bytes < 0 then
  local over = there - count
  if over > 0 then
    gone = redis.call('ZRANGE', KEYS[1], 0, over - 1)
    redis.call('ZREMRANGEBYRANK', KEYS[1], 0, over - 1)
  end
  return gone
end
local entries, total = {}, 0
for _, entry in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local hash, length = string.match(entry, '^(%x+) (%d+) ')
  if not hash or (hash == ARGV[2] and entry ~= ARGV[1]) then
    redis.call('ZREM', KEYS[1], entry)
  else
    total = total + tonumber(length)
    entries[#entries + 1] = { entry, tonumber(length) }
  end
end
for at, entry in ipairs(entries) do
  if #entries - at + 1 <= count and total <= bytes then break end
  redis.call('ZREM', KEYS[1], entry[1])
  total = total - entry[2]
  gone[#gone + 1] = entry[1]
end
return gone
",
    )
});

/// Compare-and-set. `ARGV`: the expected value, and the new one. Also succeeds if the key is
/// missing or holds another type. Returns 0 if the key holds another value.
pub(crate) static COMPARE_AND_SET: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'string' and held ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
",
    )
});

/// Releases a lock. `ARGV`: the token of its holder. Returns 0 if another holder has it.
pub(crate) static RELEASE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
",
    )
});

/// Removes and returns all entries of an index.
pub(crate) static INDEX_DRAIN: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
if redis.call('TYPE', KEYS[1])['ok'] ~= 'zset' then return {} end
local entries = redis.call('ZRANGE', KEYS[1], 0, -1)
redis.call('DEL', KEYS[1])
return entries
",
    )
});

/// Reads the probe's value and the clock.
pub(crate) static PROBE: LazyLock<Script> = LazyLock::new(|| {
    Script::new("redis.call('TIME') redis.call('TYPE', KEYS[1]) return redis.call('GET', KEYS[1])")
});
