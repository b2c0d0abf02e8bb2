"""Approvals and reclaims of owners, and their reports of nodes that fail."""
