"""Models compared in pairs: the board, each pair by itself, and its judges."""
