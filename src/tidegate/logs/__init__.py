"""Log lines, and the last error on the screen."""
