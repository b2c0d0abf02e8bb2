"""Stores of brokers and sites on disk."""
