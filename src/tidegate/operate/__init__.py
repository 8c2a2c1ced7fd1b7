"""Look at jobs and ask them for something, without Spark."""
