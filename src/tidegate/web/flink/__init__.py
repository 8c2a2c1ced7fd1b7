"""Flink's REST interface: its paths and its field names, so that its clients and scripts work here.

A value that tidegate does not know has Flink's neutral value: -1 for a time, 0 for a number, null for an object.
"""
