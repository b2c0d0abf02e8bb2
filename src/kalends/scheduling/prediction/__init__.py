"""When waiting jobs will start: by running a frozen scheduler on, and by what was learned from the past."""
