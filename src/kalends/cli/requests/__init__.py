"""The commands about requests: bookings, changes and look-ups, with their options and words."""
