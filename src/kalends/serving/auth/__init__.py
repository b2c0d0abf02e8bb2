"""Keys, tokens, and for whom a caller may speak."""
