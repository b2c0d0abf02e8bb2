"""Holds and promises of sites, the decision, and the telling of it."""
