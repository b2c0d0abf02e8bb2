"""Conversion of callers' texts, files and Python values to types of the contract."""
