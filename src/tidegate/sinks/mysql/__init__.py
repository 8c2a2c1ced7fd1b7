"""The sink of MySQL and MariaDB tables, exactly once by a staging table for each task and one transaction for each
epoch."""

from tidegate.extras import Extra, require

require(Extra.MYSQL)
