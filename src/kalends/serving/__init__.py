"""The common part of kalends servers: tokens, routes, sessions, limits, logs, metrics.

A site and a broker hand in one handler for each of their operations (`kalends.contract.calls.OPERATIONS`)
and get a complete aiohttp application; nothing in here knows what a calendar or a commit is.

==================== =============================================================================
module               one idea
==================== =============================================================================
auth/keys            Ed25519 key files: made and loaded
auth/public_keys     public keys in PEM or a JWKS, and on which terms an owner believes them
auth/providers       keys that identity providers publish: fetched, and kept
auth/tokens          signed tokens: minted, verified against the keys that an owner lists
auth/claims          what a token says, judged by the terms of its key (`claim_names` finds it)
auth/revocations     tokens and keys that are not believed any more: a file
auth/callers         callers and their rights; open access on loopback
auth/certificates    what other servers show (mutual TLS)
auth/addresses       where a server may call
auth/peer_auth       what a server proves to another when it calls
auth/session_proof   how long a session between servers is believed
http/rate_limits     limits of one application, and the token bucket of every caller
http/bodies          bytes of a body to plain values and back, by content type
http/problems        any failure as problem details
http/problem_answers problems as answers, in the form that the caller accepts
http/misdirected     calls that another kind of server has
http/connections     who makes room when there are too many connections
http/addresses       what counts as one stranger
http/dispatch        one call: limit, scope, validation, handler, metrics; the same for both transports
http/request_fields  the fields of one HTTP request, read within limits
http/application     the HTTP routes
http/sessions        the WebSocket on which clients keep many calls in flight
http/openapi         the OpenAPI document of a role
http/runner          listening, stopping gracefully, SIGHUP
http/certificates    the certificate of a server, and its end
http/reload          a changed configuration for a server that serves
settings_in_force    what of a changed configuration holds at once
installation         a new server's folder: configuration, keys, certificate, unit
self_signed          certificates that a server signs itself
audit_log            who asked for what, and what was answered
clocks               the two clocks of a server (and `clock_watch`)
metrics              Prometheus metrics
logs                 structured logs
configuration        the TOML file to typed values (and `example_configuration`)
==================== =============================================================================
"""
