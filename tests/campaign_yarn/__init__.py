"""The campaign on YARN: the driver is inside the cluster, and YARN starts the next one after each kill."""
