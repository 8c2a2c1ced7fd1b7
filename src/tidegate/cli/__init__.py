"""The `tidegate` command. It never imports pyspark: what needs Spark is started as a process of its own."""
