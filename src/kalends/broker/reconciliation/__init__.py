"""Stores that were put back: what a register and its sites remember of each other. Pure."""
