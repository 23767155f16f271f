"""From a training run to the robot: export, check, and the ten lines that run on it."""
