"""The sink of SQLite tables."""
