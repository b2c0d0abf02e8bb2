"""What every kalends server needs around its protocol: tokens, routes, sessions, limits, logs, metrics.

A site and a broker hand in one handler for each of their operations (`kalends.contract.calls.OPERATIONS`)
and get a complete aiohttp application; nothing in here knows what a calendar or a commit is.

================= ==============================================================================
module            one idea
================= ==============================================================================
keys              Ed25519 key files: made, loaded, listed as trusted
tokens            signed tokens: minted, verified against the keys that an owner lists
clocks            the two clocks of a server
callers           who is calling and what they may do; open access on loopback
limiting          limits of one application, and the token bucket of every caller
bodies            bytes of a body to plain values and back, by content type
problems          any failure as problem details
dispatch          one call: limit, scope, validation, handler, metrics; the same for both transports
incoming          the fields of one HTTP request, read within limits
application       the HTTP routes
sessions          the WebSocket on which clients keep many calls in flight
openapi           the OpenAPI document of a role
metrics           Prometheus metrics
logs              structured logs
configuration     the TOML file to typed values (and `example_configuration`)
runner            listening, stopping gracefully
================= ==============================================================================
"""
