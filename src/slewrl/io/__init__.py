"""Files, read and written with care: whole or not at all, as plain data, and code from them only if trusted."""
