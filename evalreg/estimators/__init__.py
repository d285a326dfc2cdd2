"""Estimators: each file holds its `solve` and its public function."""
