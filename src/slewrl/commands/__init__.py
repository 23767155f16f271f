"""The commands of ``slewrl``, a file for each: a dataclass whose field docstrings are the help."""
