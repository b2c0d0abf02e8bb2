"""Agents at a site: what their scripts are shown, what they choose, hold and give back."""
