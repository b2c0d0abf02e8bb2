"""What jobs cost on a live site, beside Slurm on loopback and a bare fork, exec and wait."""
