"""Benchmarks: `./dev bench core`. Ratios and differences inside one run, never figures of two machines."""
