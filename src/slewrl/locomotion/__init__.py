"""Walking robots: their environments, tasks and rewards."""
