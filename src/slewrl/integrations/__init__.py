"""Other people's simulators, used from here. Each module imports its simulator only when worlds of it are made."""
