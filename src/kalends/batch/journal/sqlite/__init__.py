"""Tables of a site's queues in its SQLite store, and their readers."""
