"""Settings: which there are, where a value comes from, and why."""
