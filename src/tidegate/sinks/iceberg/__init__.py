"""The sink of Iceberg tables, exactly once by one commit of the table for each epoch."""

from tidegate.extras import Extra, require

require(Extra.ICEBERG)
