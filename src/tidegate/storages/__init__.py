"""Where the durable records of a job are: the ports, the table of schemes, and one folder a scheme. No Spark."""
