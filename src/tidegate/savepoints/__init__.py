"""Savepoints: take, verify, archive, claim, judge, restore."""
