"""What brokers and sites keep on disk."""
