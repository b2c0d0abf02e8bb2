"""Floor 3: the broker plans a request over the sites that it knows and drives the commit protocol."""
