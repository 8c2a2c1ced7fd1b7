"""What runs on the server, in Lua. A script runs alone, so what it looks at is still so when it writes.

KEYS[1] is the ledger of a bucket: a hash with these fields, `<owner>` and `<names>` as in `stamps.py`.

| field | value |
|---|---|
| `fence <owner>` | generation, run and token of the only run that may write; `forgotten` after `tidegate forget` |
| `done <owner>` | generation and epoch up to which no row is taken any more |
| `evidence <names>` | the newest committed epoch, as in `evidence.py` |
| `prepared <owner> <attempt>` | an attempt of a task whose rows in this bucket are all written; until the commit |
| `buckets` | the number of buckets that the keys are divided into |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from hashlib import sha1


class Refusal(Enum):
    """The first word of a script's answer when it has written no more rows."""

    FENCED = b"fenced"
    FINISHED = b"finished"
    OWNED = b"owned"
    KIND = b"kind"


@dataclass(frozen=True)
class Script:
    """A script, and the name that the server gives it."""

    text: str

    @cached_property
    def sha(self) -> str:
        return sha1(self.text.encode(), usedforsecurity=False).hexdigest()


_MAY_WRITE = """
local owner, run, epoch, attempt, expire = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local fence = redis.call('HGET', KEYS[1], 'fence ' .. owner)
if fence ~= run then return {'fenced', fence or ''} end
local done = redis.call('HGET', KEYS[1], 'done ' .. owner)
if done and done >= epoch then return {'finished', done} end

-- What stands in the way of a row with this stamp: nothing (''), a later row ('later'), or another owner.
local function before(held, place)
  if not held then return '' end
  local whose, where = string.match(held, '^(%S+) (%d+)$')
  if whose == owner then return where > place and 'later' or '' end
  if not whose or redis.call('HGET', KEYS[1], 'fence ' .. whose) == 'forgotten' then return '' end
  return whose
end
"""

WRITE_HASHES = Script(
    _MAY_WRITE
    + """
local at = 6
for k = 3, #KEYS do
  local key, place, count = KEYS[k], attempt .. ARGV[at], tonumber(ARGV[at + 1])
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'none' and kind ~= 'hash' then return {'kind', key, kind} end
  local held = kind == 'hash' and redis.call('HGET', key, '_tidegate') or redis.call('HGET', KEYS[2], key)
  local found = before(held, place)
  if found ~= '' and found ~= 'later' then return {'owned', key, found} end
  if found == '' then
    if kind == 'hash' then redis.call('DEL', key) end
    if count == 0 then
      redis.call('HSET', KEYS[2], key, owner .. ' ' .. place)
    else
      redis.call('HDEL', KEYS[2], key)
      redis.call('HSET', key, '_tidegate', owner .. ' ' .. place, unpack(ARGV, at + 2, at + 1 + count))
      if expire ~= '' then redis.call('PEXPIRE', key, expire) end
    end
  end
  at = at + 2 + count
end
return {'taken'}
"""
)
"""Rows as hashes. KEYS: ledger, deleted keys, rows. ARGV: owner, fence, epoch, attempt, expiry in milliseconds or
nothing; then for each row its place, the count of what follows, and fields and values: none for a deletion."""

WRITE_STRINGS = Script(
    _MAY_WRITE
    + """
local at = 6
for k = 3, #KEYS, 2 do
  local key, stamp, place, count = KEYS[k], KEYS[k + 1], attempt .. ARGV[at], tonumber(ARGV[at + 1])
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'none' and kind ~= 'string' then return {'kind', key, kind} end
  local held = redis.call('GET', stamp) or redis.call('HGET', KEYS[2], key)
  local found = before(held, place)
  if found ~= '' and found ~= 'later' then return {'owned', key, found} end
  if found == '' then
    if count == 0 then
      redis.call('DEL', key, stamp)
      redis.call('HSET', KEYS[2], key, owner .. ' ' .. place)
    else
      redis.call('HDEL', KEYS[2], key)
      redis.call('SET', key, ARGV[at + 2])
      redis.call('SET', stamp, owner .. ' ' .. place)
      if expire ~= '' then
        redis.call('PEXPIRE', key, expire)
        redis.call('PEXPIRE', stamp, expire)
      end
    end
  end
  at = at + 2 + count
end
return {'taken'}
"""
)
"""Rows as strings: as above, but each row has two KEYS, itself and its stamp, and one value."""

PREPARE = Script(
    _MAY_WRITE
    + """
redis.call('HSET', KEYS[1], 'prepared ' .. owner .. ' ' .. attempt, '')
return {'taken'}
"""
)
"""Mark an attempt as written. A server keeps its writes in their order: where the mark is, the rows before it are. KEYS
and ARGV as for rows."""

BEGIN_RUN = Script(
    """
local fence = redis.call('HGET', KEYS[1], 'fence ' .. ARGV[1])
local place, mine = fence and string.match(fence, '^%d+'), string.match(ARGV[2], '^%d+')
if fence and (not place or place > mine or (place == mine and fence ~= ARGV[2])) then return fence end
redis.call('HSET', KEYS[1], 'fence ' .. ARGV[1], ARGV[2])
return ARGV[2]
"""
)
"""Raise the fence, and return the one that stands then. ARGV: owner, fence."""

COMMIT = Script(
    """
local fence = redis.call('HGET', KEYS[1], 'fence ' .. ARGV[1])
if not fence then return 'lost' end
if fence == 'forgotten' then return 'later' end
local held = redis.call('HGET', KEYS[1], 'evidence ' .. ARGV[2])
local place = held and string.match(held, '^%d+')
if place and place > ARGV[3] then return 'later' end
if place == ARGV[3] then return held == ARGV[4] and 'same' or 'other' end
for k = 5, #ARGV do
  if redis.call('HEXISTS', KEYS[1], 'prepared ' .. ARGV[1] .. ' ' .. ARGV[k]) == 0 then return 'lost' end
end
for k = 5, #ARGV do redis.call('HDEL', KEYS[1], 'prepared ' .. ARGV[1] .. ' ' .. ARGV[k]) end
redis.call('HSET', KEYS[1], 'evidence ' .. ARGV[2], ARGV[4])
local done = redis.call('HGET', KEYS[1], 'done ' .. ARGV[1])
if not done or done < ARGV[3] then redis.call('HSET', KEYS[1], 'done ' .. ARGV[1], ARGV[3]) end
return 'taken'
"""
)
"""Record an epoch whose rows are here. ARGV: owner, names, generation and epoch, the evidence, and the attempts that
have rows in this bucket."""

CLEAN = Script(
    """
local fence = redis.call('HGET', KEYS[1], 'fence ' .. ARGV[1])
if not fence or fence == 'forgotten' then return '0' end
local done = redis.call('HGET', KEYS[1], 'done ' .. ARGV[1])
if not done or done < ARGV[2] then
  done = ARGV[2]
  redis.call('HSET', KEYS[1], 'done ' .. ARGV[1], done)
end
local cursor, held = unpack(redis.call('HSCAN', KEYS[2], ARGV[3], 'COUNT', 500))
for k = 1, #held, 2 do
  local whose, where = string.match(held[k + 1], '^(%S+) (%d+)$')
  if whose == ARGV[1] and string.sub(where, 1, #done) <= done
    or redis.call('HGET', KEYS[1], 'fence ' .. (whose or '')) == 'forgotten' then
    redis.call('HDEL', KEYS[2], held[k])
  end
end
if cursor ~= '0' then return cursor end
local marks = 'prepared ' .. ARGV[1] .. ' '
local fields = redis.call('HKEYS', KEYS[1])
for k = 1, #fields do
  if string.sub(fields[k], 1, #marks) == marks and string.sub(fields[k], #marks + 1, #marks + #done) <= done then
    redis.call('HDEL', KEYS[1], fields[k])
  end
end
return cursor
"""
)
"""Take no more rows of finished epochs, and forget their marks and which keys they have deleted. KEYS: ledger, deleted
keys. ARGV: owner, generation and epoch, and the cursor of the scan. Returns the next cursor; `0` at the end."""

FORGET = Script(
    """
redis.call('HSET', KEYS[1], 'fence ' .. ARGV[1], 'forgotten')
redis.call('HDEL', KEYS[1], 'done ' .. ARGV[1])
local marks = 'prepared ' .. ARGV[1] .. ' '
local held = redis.call('HGETALL', KEYS[1])
for k = 1, #held, 2 do
  if string.sub(held[k], 1, #marks) == marks then redis.call('HDEL', KEYS[1], held[k]) end
  local is_evidence = string.sub(held[k], 1, 9) == 'evidence ' and string.sub(held[k], -#ARGV[2]) == ARGV[2]
  if is_evidence and string.match(held[k + 1], '^%d+ (%S+)') == ARGV[3] then
    redis.call('HDEL', KEYS[1], held[k])
  end
end
return 1
"""
)
"""Let other owners take over the keys of this one, and remove its evidence under any job name. ARGV: owner, the end of
the names (query and sink), job id."""
