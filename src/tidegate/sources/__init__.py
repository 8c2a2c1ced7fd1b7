"""Sources, without Spark: one folder a kind; what each reads, and how far."""
