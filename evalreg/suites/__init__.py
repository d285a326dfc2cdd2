"""Several results side by side, and several evals together."""
