"""Python functions as jobs: a function goes to a machine, and what it returns or raises comes back."""
