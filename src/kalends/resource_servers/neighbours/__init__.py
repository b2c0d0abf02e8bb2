"""Whom a site talks to: brokers over their sessions, and fellow sites."""
