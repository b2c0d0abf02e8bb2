"""Tokens of OpenID providers, for programs without a browser (RFC 8628)."""
