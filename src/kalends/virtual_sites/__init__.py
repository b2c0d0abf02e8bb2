"""Virtual sites: a name for a group of sites, the way to them, and a manager who knows them."""
