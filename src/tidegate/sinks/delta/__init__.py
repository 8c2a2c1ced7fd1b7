"""The sink of Delta tables, exactly once by one commit of the table's log for each epoch."""

from tidegate.extras import Extra, require

require(Extra.DELTA)
