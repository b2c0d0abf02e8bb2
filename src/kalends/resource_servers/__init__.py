"""The site: calendars of its owner, its half of the commit protocol, its store and server."""
