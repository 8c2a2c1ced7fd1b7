"""tidegate's own views: what Flink's interface has no place for."""
