"""Errors whose message is meant for the person at the terminal."""


class UserFacingError(RuntimeError):
    """Something outside this library failed (an environment, a driver, a process); the message says what to do."""
