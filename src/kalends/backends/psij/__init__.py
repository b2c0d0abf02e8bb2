"""Batch systems without an adapter of their own, through PSI/J: they take jobs, but promise no slots."""
