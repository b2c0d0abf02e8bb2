"""Trials of scripts on this computer. The packages for them are in ``kalends[agents]``."""
