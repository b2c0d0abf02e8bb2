"""Search for the best start and its sites, pure, over the sites' free time."""
