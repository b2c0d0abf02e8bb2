"""What commands about requests share: options, waiting, words, and drawn calendars."""
