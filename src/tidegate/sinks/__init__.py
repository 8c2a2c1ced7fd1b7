"""Sinks: one folder for each kind; the base classes and the conversion of values stand beside the folders."""
