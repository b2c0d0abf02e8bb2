"""Notices: what users are told by mail or by a webhook, kept until it has arrived."""
