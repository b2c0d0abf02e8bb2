"""Metrics: each application has its own, and registering is one line."""

from __future__ import annotations

import pytest

from kalends.serving.metrics import Metrics


def test_two_applications_in_one_process_do_not_share_metrics() -> None:
    first = Metrics(role="site", name="sdsc", version="1")
    second = Metrics(role="site", name="ctc", version="1")
    first.call_ended("book", 200, 0.2)
    assert 'kalends_calls_total{operation="book",status="200"} 1.0' in first.render().decode()
    assert "book" not in second.render().decode()


def test_further_metrics_are_shown_and_gauges_can_be_asked_when_read() -> None:
    metrics = Metrics(role="site", name="sdsc", version="1")
    claims = {"held": 2}
    metrics.counter("kalends_votes", "Votes.", ("vote",)).labels("yes").inc()
    metrics.gauge("kalends_claims", "Claims.", value=lambda: claims["held"])
    metrics.histogram("kalends_batch", "Batch.", buckets=(1, 10)).observe(5)
    claims["held"] = 7
    text = metrics.render().decode()
    assert 'kalends_votes_total{vote="yes"} 1.0' in text
    assert "kalends_claims 7.0" in text
    assert 'kalends_batch_bucket{le="10.0"} 1.0' in text


def test_a_name_is_registered_once() -> None:
    metrics = Metrics(role="site", name="sdsc", version="1")
    metrics.gauge("kalends_claims", "Claims.")
    with pytest.raises(ValueError, match="kalends_claims"):
        metrics.gauge("kalends_claims", "Claims.")


def test_latencies_are_counted_per_operation() -> None:
    metrics = Metrics(role="site", name="sdsc", version="1")
    for seconds in (0.0004, 0.003, 7.0):
        metrics.call_ended("book", 200, seconds)
    text = metrics.render().decode()
    assert 'kalends_call_seconds_bucket{le="0.0005",operation="book"} 1.0' in text
    assert 'kalends_call_seconds_bucket{le="0.005",operation="book"} 2.0' in text
    assert 'kalends_call_seconds_count{operation="book"} 3.0' in text
