"""Predicted starts of waiting jobs, by a frozen scheduler and by learning from the past."""
