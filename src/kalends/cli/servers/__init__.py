"""What ``kalends serve`` starts, and its check of a configuration."""
