"""What the owner has configured, as calendars, rules, machines and batch systems; and what changes of it."""
