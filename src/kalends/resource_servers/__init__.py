"""Floor 3: the site. Its owner's calendars, its half of the commit protocol, its store and server."""
