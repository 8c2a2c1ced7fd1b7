"""What keeps a job alive and lets it be operated: files and processes, no Spark."""
