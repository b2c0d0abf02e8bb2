"""Connections of a site to brokers and to other sites."""
