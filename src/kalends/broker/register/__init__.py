"""The register of a broker in its file: requests with their decisions, scripts, notices, lives."""
