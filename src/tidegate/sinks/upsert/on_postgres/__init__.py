"""Upserts into tables of PostgreSQL."""

from tidegate.extras import Extra, require

require(Extra.POSTGRES)
