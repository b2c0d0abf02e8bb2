"""Policies that choose, or change, how many nodes a job has."""
