"""Lines of the log and the last error on the screen."""
