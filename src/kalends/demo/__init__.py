"""A small facility on this machine, for trying things out: ``kalends demo`` and the examples.

================ =================================================================================
module           one idea
================ =================================================================================
runner           a demo from start to end, its signals, and everything stopped afterwards
facility         three sites and a broker: configurations, keys, tokens, and all of them running
processes        a server as a process: started, waited for, always stopped
workload         a busy machine's jobs, made from a seed, as bookings from now on
story            what the demo does at the facility, and what came of it
one_job          a job on the machine, seen running and ended again
narrator         the steps in text, with the commands that do the same
calendar_drawing several calendars over the same time, and one reservation in them
together         many calls in flight; looking until something is so
clusters         another demo: two machines run by Slurms, and an instrument
failover         another demo: databases, brokers and a site that fail while users book
================ =================================================================================
"""
