"""The owner's word: what waits for it, and what was decided."""
