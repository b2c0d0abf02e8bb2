"""Shared code of commands about jobs: options, scripts, terminals, text, and drawn machines."""
