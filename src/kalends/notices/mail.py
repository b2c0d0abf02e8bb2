"""Deliveries as mail, through the owner's relay."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Final

import aiosmtplib

from kalends.contract.calendar_files import Invitation, Method, calendar_text
from kalends.core.errors import InvalidInput
from kalends.notices.delivery import Delivery, FailedTry, delivery_id, one_line
from kalends.rim.private_files import read_secret
from kalends.serving.auth.callers import split_listen
from kalends.serving.configuration import MAIL_ADDRESS, NoticeRules

POLICY: Final = SMTP.clone(cte_type="7bit")
"""Any relay takes seven bits; other text is encoded."""

SUBJECT_MAX: Final = 200
SAID_MAX: Final = 200
"""As much of what a relay says is told to people."""

GOODBYE_S_MAX: Final = 1.0
CLOSING: Final = aiosmtplib.SMTPStatus.domain_unavailable
"""421: the relay is going away, whatever it was asked."""


class MailRelay:
    """The relay that the owner's rules name; raises `InvalidInput` for files that cannot be used."""

    def __init__(
        self, rules: NoticeRules, tls: ssl.SSLContext, section: str = "site.notices"
    ) -> None:
        self._host, self._port = split_listen(rules.smtp)
        self._sender = rules.sender
        self._encryption = rules.encryption
        self._tls = tls
        self._wait_s = rules.wait_s
        self._login: tuple[str, str] | None = None
        if rules.login is not None:
            user, _, password = read_secret(rules.login, f"{section}.login").partition("\n")
            if not (user.strip() and password.strip()):
                raise InvalidInput(
                    f"{rules.login} has no name and password",
                    where=f"{section}.login",
                    remedy="write the name into its first line, the password into the second",
                )
            self._login = user.strip(), password.strip()

    async def carry(self, delivery: Delivery) -> FailedTry | None:
        """Hand a delivery to the relay; return why that has failed."""
        if not MAIL_ADDRESS.fullmatch(delivery.to):
            return FailedTry("refused", "this server has no mail address for the user")
        message = message_of(delivery, self._sender)
        try:
            async with asyncio.timeout(self._wait_s):
                return await self._carry(delivery.to, message)
        except TimeoutError:
            return FailedTry("blocked", f"no answer within {self._wait_s} s")
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            return FailedTry("blocked", _said(error))

    async def _carry(self, to: str, message: bytes) -> FailedTry | None:
        user, password = self._login or (None, None)
        relay = aiosmtplib.SMTP(
            hostname=self._host, port=self._port, username=user, password=password,
            timeout=self._wait_s, use_tls=self._encryption == "tls",
            start_tls=self._encryption == "starttls",
            tls_context=None if self._encryption == "none" else self._tls,
        )  # fmt: skip
        try:
            await relay.connect()
            failed = await self._hand_over(relay, to, message)
            # Now the relay has it, however it takes our leave.
            with contextlib.suppress(TimeoutError, aiosmtplib.SMTPException, OSError):
                async with asyncio.timeout(GOODBYE_S_MAX):
                    await relay.quit()
        finally:
            relay.close()
        return failed

    async def _hand_over(self, relay: aiosmtplib.SMTP, to: str, message: bytes) -> FailedTry | None:
        try:
            await relay.sendmail(self._sender, [to], message)
        except aiosmtplib.SMTPRecipientsRefused as error:
            return _failed(error.recipients[0])
        except aiosmtplib.SMTPDataError as error:
            return _failed(error)
        return None


def _failed(error: aiosmtplib.SMTPResponseException) -> FailedTry:
    """Return what the relay's answer means for this delivery; raises it where it means nothing."""
    if error.code == CLOSING:
        raise error
    return FailedTry("refused" if error.code >= 500 else "later", _said(error))


def _said(error: Exception) -> str:
    said = str(error)
    if isinstance(error, aiosmtplib.SMTPResponseException):
        said = f"{error.code} {error.message}"
    text = " ".join(said.split())[:SAID_MAX] or type(error).__name__
    return "".join(each if each.isprintable() else "?" for each in text)


def message_of(delivery: Delivery, sender: str) -> bytes:
    """Return a delivery as mail. The same delivery has the same Message-ID each time."""
    message = EmailMessage(policy=POLICY)
    message["From"] = sender
    message["To"] = delivery.to
    message["Subject"] = one_line(delivery.subject)[:SUBJECT_MAX]
    message["Date"] = format_datetime(datetime.fromtimestamp(delivery.made_s, UTC))
    message["Message-ID"] = f"<{delivery_id(delivery)}@{sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(delivery.text)
    _invite(message, delivery, sender)
    return message.as_bytes()


def _invite(message: EmailMessage, delivery: Delivery, sender: str) -> None:
    """Add the events of a delivery: mail programs offer a single one next to the text (RFC 6047)."""
    invitation = Invitation(sender, delivery.to)
    for number, event in enumerate(delivery.events, start=1):
        method: Method = "CANCEL" if event.status == "CANCELLED" else "REQUEST"
        text = calendar_text((event,), method=method, invitation=invitation)
        if len(delivery.events) == 1:
            message.add_alternative(text, subtype="calendar", params={"method": method})
        else:
            name = f"{number}.ics"
            message.add_attachment(
                text, subtype="calendar", params={"method": method}, filename=name
            )
