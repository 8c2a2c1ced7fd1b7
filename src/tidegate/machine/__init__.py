"""What Spark requires: Java, its class archive, jars, a named user."""
