"""The store of a site: the journal of its facts, slots used in batch systems, and records of runs."""
