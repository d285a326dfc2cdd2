"""The bootstraps: on sums within clusters, and by functions of a frame; and the intervals of their draws."""
