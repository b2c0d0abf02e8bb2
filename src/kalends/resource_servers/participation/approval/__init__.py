"""The owner's decisions, and the requests that wait for one."""
