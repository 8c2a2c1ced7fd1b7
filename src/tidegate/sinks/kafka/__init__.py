"""The sink of Kafka topics, exactly once by Kafka transactions."""

from tidegate.extras import Extra, require

require(Extra.KAFKA)
