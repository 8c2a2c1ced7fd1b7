"""The seeded simulation: the protocol's own generators under every fault at once, each seed a world of its own.

A seed draws a job, a lease and the weights of its faults; some kinds are switched off. Chaos first, then a heal in
which everything must come to rest. What is seen is checked against what exactly-once means.

    python -m tests.simulator --seed 17
"""
