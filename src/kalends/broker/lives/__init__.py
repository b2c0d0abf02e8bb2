"""One replica: its lives, its heart, and what is told while its store fails."""
