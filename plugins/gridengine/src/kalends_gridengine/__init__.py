"""Reservations in Grid Engine for sites of kalends, by the commands of Grid Engine."""
