"""Environments: the augmented observation, tasks with their limits, exact state for resuming."""
