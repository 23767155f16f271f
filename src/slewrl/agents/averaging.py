"""The moving average of an actor's weights: what is evaluated and exported, since a single snapshot is noisy."""

RECENT = 0.1
"""At most this share of the updates so far weighs in, so that a short run is not averaged with its beginning."""


def averaging_rate(rate: float, updates: int) -> float:
    """How far the average moves towards the actor after its ``updates``-th update: ``rate``, and more at the start."""
    return max(rate, min(1.0, 1 / (RECENT * updates)))
