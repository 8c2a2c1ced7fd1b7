"""The source that reads Kafka topics, without Spark."""

from tidegate.extras import Extra, require

require(Extra.KAFKA)
