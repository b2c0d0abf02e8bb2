"""The common part of kalends servers: tokens, routes, sessions, limits, logs, metrics.

A site and a broker pass one handler for each of their operations (`kalends.contract.calls.OPERATIONS`),
and get a complete aiohttp application. This package knows nothing of calendars or commits.

==================== =============================================================================
module               one idea
==================== =============================================================================
auth/keys            Ed25519 key files: made and loaded
auth/public_keys     public keys in PEM or a JWKS, and the terms on which an owner trusts them
auth/providers       keys that identity providers publish: fetched, and kept
auth/tokens          signed tokens: minted, verified against the keys that an owner lists
auth/claims          the claims of a token, judged by the terms of its key (see `claim_names`)
auth/revocations     the file of revoked tokens and keys; `stored_revocations`: in a database
auth/callers         callers and their rights; open access on loopback
auth/certificates    certificates of other servers (mutual TLS)
auth/addresses       addresses that a server may call
auth/peer_auth       proof of identity in calls to other servers
auth/session_proof   the time for which a session between servers is trusted
http/rate_limits     limits of one application, and the token bucket of every caller
http/bodies          bytes of a body to plain values and back, by content type
http/problems        any failure as problem details
http/problem_answers problems as answers, in the form that the caller accepts
http/misdirected     calls that another kind of server has
http/connections     the bound on connections, and which of them make room
http/addresses       the address range that counts as one unknown caller
http/dispatch        one call: limit, scope, validation, handler, metrics; the same for both transports
http/request_fields  the fields of one HTTP request, read within limits
http/application     the HTTP routes
http/sessions        the WebSocket on which clients keep many calls in flight
http/openapi         the OpenAPI document of a role
http/runner          listening, stopping gracefully, SIGHUP
http/certificates    the certificate of a server, and its end
http/reload          a changed configuration for a running server
settings_in_force    the changed settings that apply at once
installation         a new server's folder: configuration, keys, certificate, unit
self_signed          certificates that a server signs itself
audit_log            calls, with user, token and answer
clocks               the two clocks of a server (and `clock_watch`)
answering_child      a process that answers long questions (and `child_frames`, its side of them)
metrics              Prometheus metrics
logs                 structured logs
configuration        the TOML file to typed values (and `example_configuration`)
==================== =============================================================================
"""
