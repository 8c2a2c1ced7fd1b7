"""Sinks: one file per way to be exactly-once."""
