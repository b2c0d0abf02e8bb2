"""The register of a broker: requests with their decisions, scripts, notices, replicas, lives."""
