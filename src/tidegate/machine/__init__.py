"""What the machine offers to Spark: Java, its class archive, a named user."""
