"""The register on SQLite: one file that the replicas of one host share."""
