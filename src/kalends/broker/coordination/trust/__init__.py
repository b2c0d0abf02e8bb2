"""Proofs that a message is true, and checks of the messages of sites."""
