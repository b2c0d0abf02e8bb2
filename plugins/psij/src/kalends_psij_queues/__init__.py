"""Queues of batch systems that sites reach through PSI/J.

Servers load `kind`, which does not load PSI/J: PSI/J takes the signal SIGCHLD of its process for itself.
"""
