"""Settings that allow a server to use its visitors' tokens at another server. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kalends.serving.configuration.servers import (
    BrokerConfiguration,
    ListeningConfiguration,
    SiteConfiguration,
)


def token_risks(server: ListeningConfiguration) -> list[str]:
    """Return each risk as a sentence with its remedy."""
    risks = [*_shared_audiences(server)]
    if isinstance(server, SiteConfiguration):
        risks += _brokers_without_passes(server)
    elif isinstance(server, BrokerConfiguration):
        risks += _sites_without_passes(server)
    return risks


def _shared_audiences(server: ListeningConfiguration) -> Iterator[str]:
    own = {server.name, server.url.rstrip("/")} - {""}
    for key in server.keys:
        for each in key.claims.audiences:
            if each.rstrip("/") not in own:
                yield (
                    f"tokens of {key.place} for {each!r} are accepted here: any other server that accepts "
                    f"them could use its visitors' tokens here. Have the issuer name {server.name!r}, or the "
                    "address of this server, and list that in `audiences`"
                )


def _brokers_without_passes(site: SiteConfiguration) -> Iterator[str]:
    for key in site.keys:
        if "broker" not in key.scopes:
            continue
        if "use" not in key.scopes:
            yield (
                f"users of the broker of {key.place} cannot use its passes here, only their own tokens: "
                "add the scope 'use' to this key"
            )
        elif key.hosts:
            yield (
                f"users of the broker of {key.place} cannot use its passes here, because `hosts` requires "
                "a certificate of the broker: they need their own tokens, for this site alone"
            )


def _sites_without_passes(broker: BrokerConfiguration) -> Iterator[str]:
    if not broker.keys:
        return
    for site in broker.sites:
        if broker.key is None or not site.passes:
            missing = (
                "name the broker's `key`" if broker.key is None else "leave out `passes = false`"
            )
            yield (
                f"users get no passes for {site.name}: it sees their own tokens, if these name it, and "
                f"could use them here. Ask its owner to give the broker's key the scope 'use', and {missing}"
            )
