"""Requirements of Spark on this machine: Java, its class archive, a named user."""
