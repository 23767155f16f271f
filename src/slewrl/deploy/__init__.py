"""From a training run to the robot: export, check, and the ten lines that run on it."""

from typing import Literal

Format = Literal["bundle", "c", "onnx", "torch", "torchscript"]
"""What ``slewrl export`` writes."""
MODEL_VERSION = 1
"""Of what a model of `integrations/sb3.py` says of itself, for export."""
