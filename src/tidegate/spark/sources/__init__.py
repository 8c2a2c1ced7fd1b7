"""Sources as Spark reads them."""
