"""One replica: its lives, its heart, and its errors while its store fails."""
