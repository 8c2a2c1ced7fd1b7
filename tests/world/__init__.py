"""The exhaustive small world: the protocol's own generators, one query of three epochs, two sinks, two tasks.

Single-threaded. Every crash point with every kind of crash, pairs of them, drivers that stand still beside their
successor, commits that arrive late. A run is named by one line, and gives the same each time:

    python -m tests.world --case 'stateful-sk:kill@12+power.drop@40'
"""
