"""Policies that pack jobs into levels."""
