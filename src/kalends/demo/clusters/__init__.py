"""Two machines with a Slurm each and an instrument on this host: ``kalends demo --slurm``.

=============== ==================================================================================
module          one idea
=============== ==================================================================================
loopback_slurm  a Slurm on loopback, from nothing, in one folder
rod             a program whose ranks run on both machines, in step
sites           both Slurms and all servers running
readiness       until a daemon is ready, or gone
story           what the demo does there, and what came of it
=============== ==================================================================================
"""
