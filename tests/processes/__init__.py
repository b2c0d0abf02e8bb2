"""Real processes: killed, stopped, cut off, out of disk, with damaged stores and hostile peers."""
