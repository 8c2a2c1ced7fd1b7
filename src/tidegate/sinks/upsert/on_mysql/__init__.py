"""Upserts into tables of MySQL and MariaDB."""

from tidegate.extras import Extra, require

require(Extra.MYSQL)
