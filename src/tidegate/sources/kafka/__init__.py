"""The source of Kafka topics, without Spark."""
