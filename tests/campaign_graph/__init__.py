"""The campaign over a graph of queries."""
