"""The scores of an estimate, one kind a file, and their sums within clusters, which is all that a covariance needs."""
