"""The sink that upserts by key into a table of SQLite, PostgreSQL or MySQL: visible inside its epoch.

The extra of a server's client is needed by the module of its database alone.
"""
