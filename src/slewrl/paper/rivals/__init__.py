"""Layers that only the benchmarks of the paper need: they ask a solver, or draw again."""
