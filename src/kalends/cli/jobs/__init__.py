"""What commands about jobs share: options, scripts, terminals, words, and drawn machines."""
