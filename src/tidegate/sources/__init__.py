"""Sources of tidegate's own, without Spark: what they read, and how far."""
