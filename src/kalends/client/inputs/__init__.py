"""What callers give, in texts, files or Python values, as what the contract knows."""
