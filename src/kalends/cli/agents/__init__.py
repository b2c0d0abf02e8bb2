"""The commands of ``kalends agent``: scripts here, at the broker, and their runs at sites."""
