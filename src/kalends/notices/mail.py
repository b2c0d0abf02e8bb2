"""Letters as mail, through the owner's relay."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Final

from kalends.core.errors import InvalidInput
from kalends.notices.letter import FailedTry, Letter, one_line
from kalends.notices.secret_file import read_secret
from kalends.notices.smtp_line import RelayRefusal, SmtpLine
from kalends.serving.auth.callers import split_listen
from kalends.serving.configuration import MAIL_ADDRESS, NoticesConfiguration

POLICY: Final = SMTP.clone(cte_type="7bit")
"""Any relay takes seven bits; other letters are encoded."""

SUBJECT_MAX: Final = 200


class MailRelay:
    """The relay that the owner's rules name; raises `InvalidInput` for files that cannot be used."""

    def __init__(self, rules: NoticesConfiguration, tls: ssl.SSLContext) -> None:
        self._host, self._port = split_listen(rules.smtp)
        self._sender = rules.sender
        self._encryption = rules.encryption
        self._tls = tls
        self._wait_s = rules.wait_s
        self._login: tuple[str, str] | None = None
        if rules.login is not None:
            user, _, password = read_secret(rules.login, "site.notices.login").partition("\n")
            if not (user.strip() and password.strip()):
                raise InvalidInput(
                    f"{rules.login} has no name and password",
                    where="site.notices.login",
                    remedy="write the name into its first line, the password into the second",
                )
            self._login = user.strip(), password.strip()

    async def carry(self, letter: Letter) -> FailedTry | None:
        """Hand a letter to the relay; return why that has failed."""
        if not MAIL_ADDRESS.fullmatch(letter.to):
            return FailedTry("refused", "it has no mail address")
        message = message_of(letter, self._sender)
        try:
            async with asyncio.timeout(self._wait_s):
                return await self._carry(letter.to, message)
        except TimeoutError:
            return FailedTry("blocked", f"no answer within {self._wait_s} s")
        except (RelayRefusal, OSError, EOFError, ValueError) as error:
            return FailedTry("blocked", str(error) or type(error).__name__)

    async def _carry(self, to: str, message: bytes) -> FailedTry | None:
        at_once = self._tls if self._encryption == "tls" else None
        line = await SmtpLine.open(self._host, self._port, at_once)
        try:
            if self._encryption == "starttls":
                await line.encrypt(self._tls)
            if self._login is not None:
                await line.log_in(*self._login)
            await line.begin_mail(self._sender)
            failed = await _hand_over(line, to, message)
        except BaseException:
            line.cut()
            raise
        line.leave()
        return failed


async def _hand_over(line: SmtpLine, to: str, message: bytes) -> FailedTry | None:
    try:
        await line.send(to, message)
    except RelayRefusal as error:
        if error.code == 421:  # The relay is closing: that is nothing of this letter's.
            raise
        return FailedTry("refused" if error.code >= 500 else "later", str(error))
    return None


def message_of(letter: Letter, sender: str) -> bytes:
    """Return a letter as mail. The same letter has the same Message-ID each time."""
    message = EmailMessage(policy=POLICY)
    message["From"] = sender
    message["To"] = letter.to
    message["Subject"] = one_line(letter.subject)[:SUBJECT_MAX]
    message["Date"] = format_datetime(datetime.fromtimestamp(letter.made_s, UTC))
    digest = hashlib.sha256(letter.id.encode()).hexdigest()[:32]
    message["Message-ID"] = f"<{digest}@{sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(letter.text)
    return message.as_bytes()
