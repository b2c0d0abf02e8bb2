"""What a site may forget, may have forgotten, or cannot be sure of, and how it finds out."""
