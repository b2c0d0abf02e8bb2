"""Which start is best, and at which sites: pure search over what is free."""
