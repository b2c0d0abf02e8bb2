"""The methods of the client, by topic."""
