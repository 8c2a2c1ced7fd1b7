"""Keep a driver alive."""
