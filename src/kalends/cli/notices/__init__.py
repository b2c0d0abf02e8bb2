"""The commands of ``kalends notify``."""
