"""The stores whose sinks are struck: each takes the place of SQLite beside the files of the crash campaign."""
