//! The scripts that run in the store, each on one key. A script makes room for itself where something of
//! another type is in the way, and reads no number that it has not looked at. What may find no room is
//! written first: once a script has written anything, the server lets it write beyond its memory.

use std::sync::LazyLock;

/// A script, and the hash that the store knows it by.
pub(crate) struct Script {
    pub(crate) code: &'static str,
    pub(crate) hash: String,
}

impl Script {
    fn new(code: &'static str) -> Self {
        Self { code, hash: redis::Script::new(code).get_hash().to_owned() }
    }
}

/// Counts one more time by the generic cell rate algorithm. `ARGV`: how often it may be in a minute.
/// Returns 0, or the microseconds to wait.
pub(crate) static COUNT: LazyLock<Script> = LazyLock::new(|| {
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

/// Puts a session. `ARGV`: owner, epoch, lifetime in milliseconds, text; without a text it is only noted
/// whose it is. Returns 0 if somebody else goes on with it.
pub(crate) static PUT: LazyLock<Script> = LazyLock::new(|| {
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

/// Prolongs a session. `ARGV`: owner, epoch, lifetime in milliseconds. Returns 1, 0 if somebody else goes
/// on with it or it has ended, 2 if it is to be put again.
pub(crate) static KEEP: LazyLock<Script> = LazyLock::new(|| {
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

/// Ends a session, which is remembered so that nobody puts it again. `ARGV`: owner, epoch, lifetime of that
/// in milliseconds. Returns 0 if somebody else goes on with it.
pub(crate) static END: LazyLock<Script> = LazyLock::new(|| {
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

/// Finds a session. `ARGV`: the most bytes of its text. Returns whether it has ended, and the text.
pub(crate) static FIND: LazyLock<Script> = LazyLock::new(|| {
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

/// Enters a record into a list. `ARGV`: the entry, the record's hash, lifetime in milliseconds, how many
/// there may be, and how many bytes (either below 0: any number). Returns the entries that have to go, the
/// oldest first. An entry is `<hash> <bytes> <payer> <session>`.
pub(crate) static ENTER: LazyLock<Script> = LazyLock::new(|| {
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

/// Puts a text in the place of one that is known. `ARGV`: the known one, or nothing, and the new one. Where there is
/// none, or something that is no text, it is put all the same. Returns 0 if another one is there.
pub(crate) static REPLACE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local held = redis.pcall('GET', KEYS[1])
if type(held) == 'string' and held ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
",
    )
});

/// Gives a lock back. `ARGV`: the mark of whoever holds it. Returns 0 if that is another one by now.
pub(crate) static RELEASE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
",
    )
});

/// Takes all entries out of a list.
pub(crate) static EMPTY: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
if redis.call('TYPE', KEYS[1])['ok'] ~= 'zset' then return {} end
local entries = redis.call('ZRANGE', KEYS[1], 0, -1)
redis.call('DEL', KEYS[1])
return entries
",
    )
});

/// Reads what the trial has written, and the clock.
pub(crate) static TRY: LazyLock<Script> = LazyLock::new(|| {
    Script::new("redis.call('TIME') redis.call('TYPE', KEYS[1]) return redis.call('GET', KEYS[1])")
});
