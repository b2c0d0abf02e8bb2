"""Numbers in blocks: what the calendars are made of. Knows nothing of owners, users or rules."""
