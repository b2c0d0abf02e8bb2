"""The store of a site: the journal of its facts, slots used in batch systems, and records of runs.

`contract` says what a store does, whatever it is; `sqlite/` and `postgres/` are the two there are.
"""
