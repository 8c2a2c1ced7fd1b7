"""Durable writes, the storage of records, locks, and work on many files. No Spark."""
