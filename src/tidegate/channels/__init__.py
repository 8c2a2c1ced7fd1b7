"""Channels: what one query of a job writes, and other queries of the job read.

`log` is the sequence of published epochs of an embedded channel; `sink` writes it, `reading` finds the rows between two
positions. An embedded channel needs no broker: its rows are in the job's own folder.
"""
