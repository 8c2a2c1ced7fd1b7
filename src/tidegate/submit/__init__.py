"""A job on a cluster: masters, what executors need and how it reaches them."""
