"""Addresses for a user's notices: by the owner's rules and the user's choice; networks of webhooks."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from kalends.core.errors import InvalidInput, NotAllowed
from kalends.rim.web_addresses import Address, is_loopback, is_odd_number, unwrapped
from kalends.serving.configuration import ANY_HOST, MAIL_ADDRESS, NoticeRules

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class AddressClosed(OSError):
    """A name of a webhook leads only to addresses that may not be called."""

    def __init__(self, host: str) -> None:
        super().__init__(f"{host} leads to a private address, which webhook_networks does not list")


def is_public(address: Address) -> bool:
    """Return whether an address, and the IPv4 address that may be wrapped in it, are on the public net."""
    found = unwrapped(address)
    if isinstance(found, ipaddress.IPv6Address) and found.teredo is not None:
        return False
    return found.is_global and not found.is_multicast


class OpenNets:
    """The networks in which webhooks may be called: the public one, and those that the owner lists."""

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks: list[Network] = [ipaddress.ip_network(each) for each in networks]

    def allow(self, host: str, address: str) -> bool:
        """Return whether `host` may be called at `address`, which it leads to."""
        found = ipaddress.ip_address(address.partition("%")[0])
        if is_public(found) or any(found in network for network in self._networks):
            return True
        return is_loopback(host) and found.is_loopback


HTTPS_PORT: Final = 443

HostAndPort = tuple[str, int]
"""Host and port."""


class AddressBook:
    """The addresses that the owner allows, by the rules in `section` of the configuration.

    Errors are about `where`.
    """

    def __init__(
        self, rules: NoticeRules, section: str = "site.notices", where: str = "notify.to"
    ) -> None:
        self._rules = rules
        self._section = section
        self._where = where
        self._nets = OpenNets(rules.webhook_networks)
        self._any = ANY_HOST in rules.webhook_hosts
        self._domains = {each.lower() for each in rules.mail_domains}
        self._hosts = {
            _place(f"//{each}", HTTPS_PORT) for each in rules.webhook_hosts if each != ANY_HOST
        }

    def address_of(self, user: str, to: str) -> str:
        """Return where a notice to `user` goes who has asked for `to`; "" is what the owner says.

        Raises `InvalidInput` for what is no address, `NotAllowed` for one that the owner does not allow.
        """
        if "://" in to:
            return self._webhook(to)
        if not self._rules.smtp:
            hosts = ", ".join(self._rules.webhook_hosts)
            raise NotAllowed(
                "this server sends no mail",
                where=self._where,
                remedy=f"add a webhook: https://HOST/..., where HOST is one of {hosts}",
            )
        own = self.own_address(user)
        if not to:
            if not own:
                raise NotAllowed(
                    f"this server knows no mail address of {user}",
                    where=self._where,
                    remedy=f"ask the owner for one (addresses in [{self._section}])"
                    + self._others(),
                )
            return own
        if not MAIL_ADDRESS.fullmatch(to):
            raise InvalidInput(
                f"{to!r} is not a mail address",
                where=self._where,
                remedy="write ann@example.org, or https://host/path for a webhook",
            )
        if to != own and to.rpartition("@")[2].lower() not in self._domains:
            raise NotAllowed(
                f"this server sends no mail for {user} to {to}",
                where=self._where,
                remedy=(f"leave the address out: mail goes to {own}" if own else "ask the owner")
                + self._others(),
            )
        return to

    def allows_webhook(self, url: str) -> bool:
        """Return whether the owner has listed the host of a webhook."""
        try:
            return self._webhook(url) == url
        except (InvalidInput, NotAllowed):
            return False

    def own_address(self, user: str) -> str:
        """Return the address that the owner has for a user, or ""."""
        listed = self._rules.addresses.get(user)
        made = listed or self._rules.address.replace("{user}", user)
        return made if MAIL_ADDRESS.fullmatch(made) else ""

    def _others(self) -> str:
        domains = ", ".join(self._rules.mail_domains)
        return f"; it may also go to addresses in {domains}" if domains else ""

    def _webhook(self, url: str) -> str:
        """Return the URL with its host as the owner has listed it."""
        try:
            parts = urlsplit(url)
            host, port = _place(url, HTTPS_PORT if parts.scheme == "https" else 80)
        except ValueError as error:
            raise self._no_url(url) from error
        plain = url.isascii() and url.isprintable() and not is_odd_number(host)
        if parts.scheme not in ("https", "http") or not (host and plain) or parts.fragment:
            raise self._no_url(url)
        if "@" in parts.netloc:
            raise InvalidInput(
                "a user or a password in a URL",
                where=self._where,
                remedy="leave them out: calls are signed",
            )
        if not ((host, port) in self._hosts or (self._any and self._is_open(host, port))):
            raise NotAllowed(
                f"this server calls no webhook at {parts.netloc}",
                where=self._where,
                remedy=f"the owner allows {', '.join(self._rules.webhook_hosts)}"
                if self._rules.webhook_hosts
                else f"ask the owner to list that host (webhook_hosts in [{self._section}])",
            )
        if parts.scheme == "http" and not is_loopback(host):
            raise NotAllowed(
                f"{url} would be called without encryption",
                where=self._where,
                remedy="write https://",
            )
        shown = f"[{host}]" if ":" in host else host
        usual = port == (HTTPS_PORT if parts.scheme == "https" else 80)
        place = shown if usual else f"{shown}:{port}"
        return urlunsplit((parts.scheme, place, parts.path or "/", parts.query, ""))

    def _is_open(self, host: str, port: int) -> bool:
        """Return whether a host that is not listed may be called, if its name leads to an open address."""
        if port != HTTPS_PORT or is_loopback(host):
            return False
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return "." in host
        return self._nets.allow(host, host)

    def _no_url(self, url: str) -> InvalidInput:
        return InvalidInput(
            f"{url!r} is not the URL of a webhook",
            where=self._where,
            remedy="write https://host/path",
        )


def contacts_of(rules: NoticeRules | None) -> Callable[[str], str]:
    """Return what finds the mail address that the owner has for a user; "" if there is none."""
    if rules is None or not rules.smtp:
        return lambda user: ""
    return AddressBook(rules).own_address


def _place(url: str, default_port: int) -> HostAndPort:
    """Return host, without a dot at its end, and port of a URL; raises `ValueError` for no port."""
    parts = urlsplit(url)
    return ((parts.hostname or "").rstrip("."), default_port if parts.port is None else parts.port)
