"""Programs that change their size over MPI; needs the extra `mpi`.

Ranks of one ``MPI_COMM_WORLD`` cannot leave it one by one, so a change replaces them all: the old set
spawns the new one, sends it every array, disconnects from it and ends. Every rank holds only its part of
the arrays, which exist twice while they move.
"""
