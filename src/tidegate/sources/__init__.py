"""Sources, without Spark: one package for each kind of source.

It decides what an epoch reads, and where the epoch ends.
"""
