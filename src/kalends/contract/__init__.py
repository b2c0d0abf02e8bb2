"""What is said on the wire: messages, calls, their codec, and what proves them."""
