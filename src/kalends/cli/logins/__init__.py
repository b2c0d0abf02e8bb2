"""Who is calling: ways to log in, kept profiles, and what a server says of a caller."""
