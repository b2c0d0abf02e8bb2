"""The commands of ``kalends agent``."""
