"""Figures and tables from arrays and run folders; nothing here imports torch."""
