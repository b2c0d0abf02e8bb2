"""Scripts tried on this computer. What these modules need is installed with ``kalends[agents]``."""
