"""A job between Kafka topics on real Spark and real brokers, struck by a seeded plan: see CONTRIBUTING.md."""
