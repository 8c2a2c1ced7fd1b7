"""Settings: the table, the places that may set them, and the rules between them."""
