"""Other people's simulators, used from here. Each module imports its simulator only when worlds of it are made."""

MODEL_VERSION = 1
"""Of what a model of `sb3.py` says of itself, for export."""
