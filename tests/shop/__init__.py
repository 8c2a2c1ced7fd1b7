"""The shop of `examples/shop.py` on real servers, killed by a seeded plan. Every row of every store is compared."""
