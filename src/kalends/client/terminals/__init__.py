"""The client's end of the terminal of a job."""
