"""Tools of stores on disk. The tables are in the rooms that use them."""
