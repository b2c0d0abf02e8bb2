"""Reclaims of owners: reservations to move, those that stay, and those that were moved."""
