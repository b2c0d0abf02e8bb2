"""Notices to users by mail or by a webhook, kept until they have arrived."""
