"""Restored stores: what a register and its sites remember of each other. Pure."""
