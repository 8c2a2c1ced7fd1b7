"""The sink of Redis keys: a row a key, visible inside its epoch, and replaced by an epoch that runs again."""

from tidegate.extras import Extra, require

require(Extra.REDIS)
