"""The server to call and the caller's identity: profiles, stored tokens, and proofs."""
