"""Grid Engine, by its commands."""
