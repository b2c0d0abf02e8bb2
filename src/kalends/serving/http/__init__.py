"""Routes, bodies and sessions of both servers."""
