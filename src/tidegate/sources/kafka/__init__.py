"""The source of Kafka topics, without Spark."""

from tidegate.extras import Extra, require

require(Extra.KAFKA)
