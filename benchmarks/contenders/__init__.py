"""Four ways to book several resources for one time, driven by the same clients in virtual time."""
