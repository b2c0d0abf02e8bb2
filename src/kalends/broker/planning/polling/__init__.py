"""Polling p of the k candidates that could serve, in growing rounds."""
