"""Shared code of commands about requests: options, waiting, text, and drawn calendars."""
