"""Files that appear in a folder: which of them an epoch reads, and which were read before."""
