"""The wire: messages, calls, their codec, and proofs."""
