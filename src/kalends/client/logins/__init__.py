"""Which server is called, and as whom: profiles, kept tokens, and what proves a caller."""
