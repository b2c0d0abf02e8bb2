"""Replays workloads through the policies that run live, and measures what comes of it."""
