"""OAR, by its commands."""
