"""The DD-SRad paper: its experiments, claims, tables, theorems, and the rivals that only its benchmarks need."""
