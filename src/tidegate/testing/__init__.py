"""For a user's tests: the contract suite of sinks, a sink in memory, the checker, a Kafka broker; and the demo."""
