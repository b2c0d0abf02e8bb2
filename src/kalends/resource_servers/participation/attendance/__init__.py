"""Check-in of users, and slots that are given back without one."""
