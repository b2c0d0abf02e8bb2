"""New servers: ``kalends admin init`` and ``config``."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from kalends.cli.console import output
from kalends.cli.console.commands import local_command
from kalends.cli.console.server_parts import server_parts
from kalends.cli.console.settings import Settings
from kalends.core.errors import InvalidInput

if TYPE_CHECKING:
    from kalends.serving.installation.files import Written
    from kalends.serving.installation.plan import Installation

DEFAULT_LISTEN = {"site": "127.0.0.1:7101", "broker": "127.0.0.1:7100"}

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@local_command("config", "kalends admin config > kalends.toml", "kalends admin config --json")
def config(settings: Settings) -> None:
    """Print a commented configuration file.

    Write it to a file, edit it, and run `kalends serve FILE`.
    """
    with server_parts():
        from kalends.serving.example_configuration import example
    text = example()
    output.answer(settings, "config", {"toml": text}, text.splitlines)


@local_command(
    "init",
    "kalends admin init site ctc --resource sp2:128 --broker-key npaci.pub",
    "kalends admin init broker npaci --site ctc=http://127.0.0.1:7101",
)
@click.argument("role", required=False, type=click.Choice(["site", "broker"]))
@click.argument("name", required=False)
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="New folder for all files.  [default: NAME]",
)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Address to listen at.  [default: loopback, port 7101 or 7100]",
)
@click.option(
    "--url", metavar="URL", default="", help="Public address.  [default: that of --listen]"
)
@click.option(
    "--resource",
    "resources",
    metavar="NAME[:UNITS]",
    multiple=True,
    help="Resource of a site, e.g. sp2:128; may be repeated.",
)
@click.option(
    "--zone", metavar="NAME", default="", help="Time zone of the resources.  [default: yours]"
)
@click.option(
    "--broker-key",
    "broker_keys",
    metavar="FILE",
    multiple=True,
    type=FILE,
    help="Public key of a site's broker, in a file NAME.pub; may be repeated.",
)
@click.option(
    "--site",
    "sites",
    metavar="NAME=URL",
    multiple=True,
    help="Site of a broker, e.g. ctc=https://kalends.ctc.example:7101; may be repeated.",
)
@click.option(
    "--ca",
    "authorities",
    metavar="NAME=FILE",
    multiple=True,
    help="Certificate to trust at a broker's site; may be repeated.",
)
@click.option(
    "--people-key",
    "people_keys",
    metavar="FILE",
    multiple=True,
    type=FILE,
    help="Public key that signs users' tokens; may be repeated.  [default: a new pair]",
)
@click.option("--certificate", metavar="FILE", type=FILE, help="Certificate for TLS, in PEM form.")
@click.option("--certificate-key", metavar="FILE", type=FILE, help="Private key of --certificate.")
@click.option("--self-signed", is_flag=True, help="Make a new certificate, for the host in --url.")
@click.option(
    "--operator",
    metavar="NAME",
    default="operator",
    show_default=True,
    help="User of the token for operators (if its signing key is new).",
)
def init(settings: Settings, /, role: str | None, name: str | None, **options: Any) -> None:  # fmt: skip
    """Set up a site or a broker in a new folder.

    Writes a configuration, keys, a token for the operator, and a systemd unit that runs as its own user. On
    a terminal, asks for missing values. Overwrites nothing, and changes nothing outside the folder.
    """
    if role is None or name is None:
        role, name = _ask(role, name, options)
    with server_parts():
        from kalends.serving.installation.files import write_installation
    plan = _plan(settings, role, name, options)
    written = write_installation(plan, options["operator"], int(time.time()))
    made = {
        "configuration": str(written.configuration), "address": plan.address,
        "unit": str(written.unit), "users": str(written.users),
        "certificate": str(written.certificate or ""), "public_key": str(written.public_key or ""),
        "operator_token": str(written.operator_token or ""),
    }  # fmt: skip
    output.answer(settings, "init", made, lambda: _next_steps(plan, written))


def _ask(role: str | None, name: str | None, options: dict[str, Any]) -> tuple[str, str]:
    if not sys.stdin.isatty():
        raise InvalidInput(
            "the role and name of the server are missing",
            where="ROLE NAME",
            remedy="kalends admin init site ctc, or kalends admin init broker npaci",
        )
    role = role or click.prompt("Set up a", type=click.Choice(["site", "broker"]))
    name = name or click.prompt(f"Name of the {role}, short")
    options["listen"] = options["listen"] or click.prompt(
        "Address to listen at", default=DEFAULT_LISTEN[role]
    )
    what, example = ("resources", "sp2:128") if role == "site" else ("sites", "ctc=http://...")
    if not options[what]:
        said = click.prompt(f"Names of its {what}, e.g. {example}; separated by spaces", default="")
        options[what] = tuple(said.split())
    return role, name


def _plan(settings: Settings, role: str, name: str, options: dict[str, Any]) -> Installation:
    from kalends.serving.installation.plan import Installation, NamedUrl

    sites = _pairs(options["sites"], "--site", "ctc=https://kalends.ctc.example:7101")
    authorities = _pairs(options["authorities"], "--ca", "ctc=ctc.pem")
    _check_role(role, options)
    return Installation(
        role="site" if role == "site" else "broker",
        name=name,
        directory=options["directory"] or Path(name),
        listen=options["listen"] or DEFAULT_LISTEN[role],
        url=options["url"],
        zone=options["zone"] or settings.time_zone().key,
        resources=tuple(map(_resource, options["resources"])),
        sites=tuple(NamedUrl(site, url) for site, url in sites.items()),
        authorities={site: _file(path, "--ca") for site, path in authorities.items()},
        people_keys=options["people_keys"],
        broker_keys=options["broker_keys"],
        certificate=options["certificate"],
        certificate_key=options["certificate_key"],
        self_signed=options["self_signed"],
    )


def _check_role(role: str, options: dict[str, Any]) -> None:
    others = {"site": ("sites", "authorities"), "broker": ("resources", "broker_keys")}
    words = {
        "sites": "--site", "authorities": "--ca", "resources": "--resource",
        "broker_keys": "--broker-key",
    }  # fmt: skip
    for option in others[role]:
        if options[option]:
            raise InvalidInput(f"a {role} has none", where=words[option], remedy="leave it out")


def _pairs(words: tuple[str, ...], option: str, example: str) -> dict[str, str]:
    pairs = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not (name and sign and value):
            raise InvalidInput(
                f"{word!r} is not NAME=VALUE", where=option, remedy=f"write {example}"
            )
        pairs[name] = value
    return pairs


def _resource(word: str) -> Any:
    from kalends.serving.installation.plan import WantedResource

    name, _, units = word.partition(":")
    if units and not (units.isascii() and units.isdigit() and len(units) < 10):
        raise InvalidInput(
            f"{units!r} is not a number of units", where="--resource", remedy="write e.g. sp2:128"
        )
    return WantedResource(name, int(units or 1))


def _file(path: str, option: str) -> Path:
    if not Path(path).is_file():
        raise InvalidInput(f"there is no file {path}", where=option)
    return Path(path)


def _next_steps(plan: Installation, written: Written) -> list[str]:
    folder, unit = plan.directory.absolute(), written.unit.name
    configuration = quote(str(written.configuration))
    users, service = (quote(str(folder / each.name)) for each in (written.users, written.unit))
    lines = [f"{plan.role} {plan.name} is set up in {plan.directory}, for {plan.address}", ""]
    lines += [f"check   kalends serve --check {configuration}"]
    lines += [f"run     kalends serve {configuration}", "", "or as a service, as root:"]
    lines += [
        f"  install -m 644 {users} /etc/sysusers.d/ && systemd-sysusers",
        f"  chown -R {unit.removesuffix('.service')}: {quote(str(folder))}",
        f"  install -m 644 {service} /etc/systemd/system/ && systemctl enable --now {unit}",
        *_closed_lines(unit.removesuffix(".service"), written),
        "",
    ]
    if written.public_key is not None:
        lines.append(f"give to the owners of its sites: {written.public_key}")
    if plan.self_signed:
        lines.append(f"give to all who are to trust its certificate: {written.certificate}")
    if written.operator_token is not None:
        lines.append(f"your token as operator, for 30 days: {written.operator_token}")
    return lines


def _closed_lines(user: str, written: Written) -> list[str]:
    """Return a warning if the service's user cannot reach this program."""
    if not written.closed:
        return []
    folders = ", ".join(map(str, written.closed))
    return [
        f"  The service cannot start yet: its user {user} cannot enter {folders}.",
        "  Install the program where all users can read it, e.g. in /opt/kalends, and give a --directory",
        "  that all users can reach.",
    ]
