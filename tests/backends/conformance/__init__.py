"""The conformance suite of batch systems: what every adapter keeps, alone and behind a site.

The tests here, and where a system keeps accounts those of `tests.backends.accounting.test_used_time`, run
against the fixture `system`, a `SystemAtHand`. The tests of a plug-in provide that fixture, and import all of
them: see `plugins/gridengine/tests`.
"""
