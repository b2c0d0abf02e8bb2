"""Scenarios, each of which hunts one kind of fault."""
