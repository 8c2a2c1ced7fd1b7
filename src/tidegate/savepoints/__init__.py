"""Savepoints: take one, verify it, pack it as an archive, claim it, check a restore from it, and restore it."""
