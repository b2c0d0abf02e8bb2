"""Bids of sites for a job: how many are asked, which, for how long, and whose offer is best. Pure."""
