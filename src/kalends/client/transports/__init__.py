"""Ways to a server: HTTP for one call, a WebSocket for many, and when a call is tried again."""
