"""Servers of ``kalends serve``, and its check of a configuration."""
