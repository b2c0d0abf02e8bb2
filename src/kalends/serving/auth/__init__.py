"""Keys, tokens, and the rights of callers."""
