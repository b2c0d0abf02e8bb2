"""Floor 0: intervals and time, identifiers, the logical clock, requests, messages, errors, the wire."""
