"""Jobs that brokers have placed here: their places, starts, parts and ends."""
