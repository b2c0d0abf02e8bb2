"""The near end of the terminal of a job."""
