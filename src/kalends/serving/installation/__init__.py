"""A new site or broker: its configuration, keys, certificate, tokens and service, in one folder."""
