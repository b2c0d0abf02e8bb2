"""Promises on nodes of a batch system: what it has to grant before a vote, and what it is reminded of."""
