"""One module for each family of policies; `kalends.scheduling.registry` knows them by name."""
