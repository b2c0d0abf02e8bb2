"""The register on PostgreSQL: replicas of several hosts share it. Needs ``kalends[postgres]``."""
