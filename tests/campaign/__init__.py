"""The crash campaign: a real job on real Spark, struck again and again by a seeded plan, then every record compared."""
