"""The servers: what each is made of, kernel and wings, and its life from start to stop."""
