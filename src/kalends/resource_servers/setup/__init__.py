"""The owner's configuration as calendars, rules, machines and batch systems, and its changes."""
