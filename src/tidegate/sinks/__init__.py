"""Sinks: one folder a kind; the base and the values of all kinds stand beside them."""
