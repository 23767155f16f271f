"""Films, pictures and a live view of a policy."""
