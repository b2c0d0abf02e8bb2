"""Shepherds: each runs one attempt of a job and outlives the server that asked for it.

This room has all between "attempt A of job J starts on these cores" and "it has ended, all its processes
are gone, and this is how". `launcher` is its door. The other side is a program of its own: `zygote` forks
a `shepherd` for each attempt, which needs nothing but the standard library and its neighbours here.

Whether an attempt has begun is not a matter of process ids, heartbeats or patience. It is what the first
line of its `record` says, which only the holder of the record's lock can write.
"""
