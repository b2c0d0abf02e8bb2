"""Memory of a site: facts that it may forget, may have forgotten, or has to check."""
