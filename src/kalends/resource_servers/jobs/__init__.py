"""Jobs at a site: its machines, their queues, places that brokers asked for, and the gates before a start."""
