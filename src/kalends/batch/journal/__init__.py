"""The stored journals of the queues of a site, and the jobs that are over."""
