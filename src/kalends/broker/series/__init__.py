"""The wing of series at a broker: a request at every occurrence of a rule, each a request of its own.

A series has no row of its own. Each of its requests describes it whole, and their ids sort together: the id
of the series with another number at its end. So whatever is left of it can be shown, in any store.
"""
