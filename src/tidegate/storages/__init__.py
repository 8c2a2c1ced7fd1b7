"""The ports to durable records of a job, the table of schemes, and one folder for each scheme. No Spark."""
