"""A world of graphs of queries that are joined by channels, whose checkpoints are to be consistent cuts.

The protocol of an epoch, recovery, the log of a channel, gates, barriers, the coordinator and the comparison of the cut
are the code that a job calls, in threads that stop wherever another one can get between. Spark is played: it plans an
epoch, logs it, hands it over, and logs its end.
"""
