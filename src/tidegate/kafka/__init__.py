"""The Kafka end: what needs no Spark."""
