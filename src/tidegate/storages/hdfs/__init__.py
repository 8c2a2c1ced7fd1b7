"""Durable places on HDFS, by the client `hdfs-native`, which needs no JVM."""
