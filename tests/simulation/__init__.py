"""The shipped protocol code in a simulated network with faults, seeded. See docs/fault-simulation.md."""
