"""The site's half of the protocol as a pure machine: messages and time in, effects out."""
