"""The sink of Kafka topics, exactly once by Kafka transactions."""
