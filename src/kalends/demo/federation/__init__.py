"""The demo of jobs that may run anywhere: four sites of different policies, and a broker."""
