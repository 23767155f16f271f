"""The rate of the moving average of an actor's weights."""

RECENT = 0.1
"""The average covers at most this share of the updates so far, so that a short run leaves out its beginning."""


def averaging_rate(rate: float, updates: int) -> float:
    """How far the average moves towards the actor after its ``updates``-th update: ``rate``, and more at the start."""
    return max(rate, min(1.0, 1 / (RECENT * updates)))
