"""Transports to a server: HTTP for one call, a WebSocket for many; and the rules of retries."""
