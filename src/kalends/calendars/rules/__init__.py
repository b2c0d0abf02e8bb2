"""What owners allow: access, closed times, limits."""
