"""Payment at a site: accounts, credit that is granted, and charges that are part of the commit."""
