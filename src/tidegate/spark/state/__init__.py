"""State of stateful operators: backends, rows, moves between them."""
