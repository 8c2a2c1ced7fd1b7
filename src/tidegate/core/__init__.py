"""The protocol: pure values and generator functions. No I/O, no clock, no threads, no Spark."""
