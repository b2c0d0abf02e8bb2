"""Bookings of another system: rows of a table or events of a calendar, which become reservations."""
