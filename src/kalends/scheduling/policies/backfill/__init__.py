"""Policies that let later jobs start without delaying earlier ones."""
