"""Deployment: exports a trained policy, checks it, and runs it on the robot."""

from typing import Literal

Format = Literal["bundle", "c", "onnx", "torch"]
"""The file formats that ``slewrl export`` writes."""
