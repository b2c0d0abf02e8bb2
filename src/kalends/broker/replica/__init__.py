"""One replica of a broker: incarnations, leases, heartbeat, archive, and errors while its store fails."""
