"""Arithmetic that keeps its digits: orthonormal columns, least squares, Newton steps."""
