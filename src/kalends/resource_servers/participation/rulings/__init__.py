"""Rulings: what an owner's script decides about each booking, before it is held or promised."""
