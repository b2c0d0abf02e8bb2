"""The stored record of a request, and the view of it for its user."""
