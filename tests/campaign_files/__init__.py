"""A real job that reads files, struck by a seeded plan while its files come, move, go and change."""
