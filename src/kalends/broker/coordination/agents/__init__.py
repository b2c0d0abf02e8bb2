"""Agents that choose slots at sites."""
