"""Reservations that are shared, handed over, or shown to guests: a wing of the broker.

Its socket in the kernel is `kalends.broker.desk.request_queries.Shared`. Sites know nothing of it but a
hand-over, which is a change by another user.
"""
