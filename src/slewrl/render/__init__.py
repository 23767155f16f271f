"""What a policy looks like: films, pictures, a live view."""
