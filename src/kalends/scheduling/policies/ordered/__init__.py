"""Policies that start jobs in an order, and may skip those that do not fit."""
