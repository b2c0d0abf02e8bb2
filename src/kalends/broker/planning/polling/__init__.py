"""Choosing whom to ask: p of the k candidates that could serve, in growing rounds."""
