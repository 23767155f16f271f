"""Walking robots: the simulated worlds, their tasks and rewards."""
