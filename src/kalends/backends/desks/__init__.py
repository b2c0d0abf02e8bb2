"""Jobs in the own queue of a batch system: it alone decides when they run, and promises no slots."""
