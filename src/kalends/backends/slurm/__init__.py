"""Slurm, by its commands."""
