"""Calm: how much commands shake, measured; filters that make them shake less. Needs numpy alone."""
