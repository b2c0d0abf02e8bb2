"""A webhook tells Ann that an owner has moved her reservation, and that it begins soon: in one process."""

from __future__ import annotations

import http.server
import json
import queue
import threading

import kalends
from kalends.testing import LocalFacility

NOW, SLOT = "2027-03-01T09:00Z", "2027-03-02T09:00Z"


class Receiver(http.server.BaseHTTPRequestHandler):
    """Takes what is signed with the secret of the webhook, and each delivery once."""

    secret = ""
    servers: LocalFacility
    seen: set[str] = set()
    told: queue.Queue[dict[str, object]] = queue.Queue()

    def do_POST(self) -> None:
        body = self.rfile.read(min(int(self.headers["Content-Length"]), 200_000))
        try:
            # Leave now_s out: here it is the clock of these servers, which stands still in 2027.
            now_s = self.servers.clock.wall_s()
            delivery = kalends.verify_webhook(self.secret, self.headers, body, now_s=now_s)
        except kalends.KalendsError:
            self.send_response(401)
        else:
            self.send_response(204)
            if delivery not in self.seen:
                self.seen.add(delivery)
                self.told.put(json.loads(body))
        self.end_headers()

    def log_message(self, *said: object) -> None:
        pass


def main() -> None:
    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    place = f"127.0.0.1:{receiver.server_port}"
    with (
        LocalFacility(
            {"sdsc": {"sp2": 64}}, now=NOW, settings={"notices": {"webhook_hosts": [place]}}
        ) as servers,
        servers.sync_client("ann") as ann,
        servers.sync_client("owner", at="sdsc") as owner,
    ):
        Receiver.servers = servers
        Receiver.secret = ann.add_notice_address(f"http://{place}/kalends", remind="1h").secret
        booked = ann.book("sdsc/sp2:64", duration="2h", at=SLOT, note="run 7")
        owner.reclaim("sdsc/sp2", at=SLOT, duration="2h", reason="a new pump")
        told = Receiver.told.get(timeout=60)
        print(f"{told['event']} by {told['by']}: {told['reason']} ({told['note']})")
        shown = ann.show(booked.id)
        assert shown.changed is not None
        print(f"shown: {shown.changed.made} by {shown.changed.by}")
        servers.clock.advance(seconds=shown.start - 1_800 - servers.clock.wall_s())
        reminder = Receiver.told.get(timeout=60)
        print(f"{reminder['event']} ({reminder['note']}): {shown.start - reminder['at']} s before")
    receiver.shutdown()


if __name__ == "__main__":
    main()
