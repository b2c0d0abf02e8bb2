"""Identity of the caller: ways to log in, stored profiles, and the server's view of a caller."""
