"""Records on a local disk, and the locks of a job there."""
