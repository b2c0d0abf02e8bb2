"""The commands for research: replays of workloads, policies, and checks of schedules."""
