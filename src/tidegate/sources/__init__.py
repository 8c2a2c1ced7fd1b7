"""Sources, without Spark: one package for each kind of source.

The code of a source decides which rows an epoch reads, and where the epoch ends.
"""
