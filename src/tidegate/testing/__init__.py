"""Shipped with the library: a memory sink, the contract suite of sinks, the checker, the small world."""
