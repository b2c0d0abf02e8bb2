"""The sites of a broker: links to them, what they ask, and those that are away for long."""
