"""From a training run to the robot: export, check, and the ten lines that run on it."""

from typing import Literal

Format = Literal["bundle", "c", "onnx", "torch"]
"""What ``slewrl export`` writes."""
