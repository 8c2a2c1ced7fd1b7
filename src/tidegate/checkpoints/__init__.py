"""Durable records of a job and the files of Spark's checkpoint. No JVM is needed to read them."""
