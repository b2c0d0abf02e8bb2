"""The commands for logging in: ways to log in, stored profiles, and the server's view of a caller."""
