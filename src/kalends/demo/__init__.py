"""A small facility on this machine, for trying things out: ``kalends demo`` and the examples.

============ =====================================================================================
module       one idea
============ =====================================================================================
processes    a server as a process: started, waited for, always stopped
facility     three sites and a broker: configurations, keys, tokens, and all of them running
workload     a real machine's log as bookings from now on
story        what the demo does at the facility, and what came of it
together     many calls in flight; looking until something is so
drawing      several calendars over the same time, and one reservation in them
============ =====================================================================================
"""
