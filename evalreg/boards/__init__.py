"""Models compared in pairs: the board, each pair by itself, cycles, and its judges."""
