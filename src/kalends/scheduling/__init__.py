"""Queues of batch jobs: waiting rooms, policies and predicted starts. Pure; used live and simulated alike."""
