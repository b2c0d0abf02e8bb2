"""Servers on PostgreSQL on this host, and what users see when one fails: ``kalends demo --postgres``.

================ =================================================================================
module           one idea
================ =================================================================================
postgres_cluster a PostgreSQL cluster in one folder, from nothing, and its standby
databases        a primary and its synchronous standby; either may be the one that fails
hosts            two processes of a broker, two of a site, one of another site: all running
load             users who book all the time, and what each booking came to
tally            the bookings around a failure, counted, and compared with an audit
story            what is killed, and what users saw
================ =================================================================================
"""
