"""Calls of users to a broker: bookings and their changes, scripts, and notices."""
