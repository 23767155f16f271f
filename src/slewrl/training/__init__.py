"""One run: what it is, its loop, its folder, its checkpoints, and the policy that comes of it."""
