"""The `tidegate` command. It never imports pyspark: a feature that needs Spark starts a process of its own."""
