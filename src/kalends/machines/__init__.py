"""Partitionable machines: topologies and the mappers that decide which nodes a partition gets."""
