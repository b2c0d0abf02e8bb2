"""Looking at calendars before anything is booked: easy searches at once, hard ones by turns."""
