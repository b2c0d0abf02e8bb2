"""Tables of a site's queues in its store on PostgreSQL, and their readers."""
