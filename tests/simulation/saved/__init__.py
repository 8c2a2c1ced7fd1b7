"""A small world for savepoints: the code that takes and restores them, on a folder whose every change may be the last.

Epochs, decisions and commits are those of `tests.world`; a savepoint is taken, opened, judged and restored
by the very functions that a job calls. What they ask of Spark is answered by the world's own.
"""
