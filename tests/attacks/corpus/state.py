"""Keeping something from one run to the next, and reaching others through what is shared."""

from __future__ import annotations

from .kinds import ERROR, Attack, choosing, harmless, inside, whole


def _remembering(name: str, tries: str, source: str) -> Attack:
    """Its answer is [0] as long as nothing is remembered, and grows when something is."""
    return whole(name, tries, source, frozenset({"ok"}))._replace(answer=[0])


ATTACKS = [
    _remembering(
        "a default that remembers",
        "a mutable default lives as long as its function",
        """
        def count(seen=[]):
            seen.append(1)
            return len(seen)
        def choose(view, request):
            return [count() - 1]
        """,
    ),
    _remembering(
        "a name of the module that remembers",
        "a list on the top level lives as long as the module",
        """
        seen = []
        def choose(view, request):
            seen.append(1)
            return [len(seen) - 1]
        """,
    ),
    _remembering(
        "a constant that remembers",
        "a list that the compiler could have folded",
        """
        table = {"runs": 0}
        def choose(view, request):
            table["runs"] = table["runs"] + 1
            return [table["runs"] - 1]
        """,
    ),
    harmless(
        "the view is emptied",
        "the next script would see nothing",
        "view['slots'].clear()\nview['taken'].clear()\nview.clear()\nreturn [len(view)]",
    ),
    harmless(
        "the view's slots are changed",
        "a slot for more units than there are, before it is held",
        "for slot in view['slots']:\n    slot['units'] = 10 ** 6\n    slot['start'] = 0\n"
        "    slot['resource'] = 'other/secret'\nreturn [0]",
    ),
    harmless(
        "the limit on holds is changed",
        "hold everything",
        "view['held_max'] = 10 ** 6\nrequest['user'] = 'root'\nreturn [0]",
    ),
    harmless(
        "slots are made up",
        "an answer is looked up among what was shown, not in the script's copy",
        "view['slots'].append({'id': 99999})\nreturn [0]",
    ),
    Attack(
        "a made-up slot is chosen",
        "an answer is looked up among what was shown, not in the script's copy",
        choosing("view['slots'].append({'id': 99999})\nreturn [99999]"),
        frozenset({"ok"}),
        answer=[99999],
        judged="bad-result",
    ),
    harmless(
        "the request becomes part of the view",
        "a circle through what was given",
        "view['request'] = request\nrequest['view'] = view\nreturn [0]",
    ),
    harmless(
        "a message for oneself",
        "what is sent comes back as received",
        "send('mine')\nreturn [0 if receive() != 'mine' else 1]",
    ),
    inside("messages without end", "fill the client's inbox", "while True:\n    send(1)", ERROR),
    inside(
        "a thousand messages",
        "fill the client's inbox",
        "for n in range(1000):\n    send(n)\nreturn [0]",
        ERROR,
    ),
    inside("a long message", "fill the client's inbox", "send('a' * 99999)\nreturn [0]", ERROR),
    inside(
        "many long messages",
        "each allowed, all together not",
        "for n in range(100):\n    send('a' * 4000)\nreturn [0]",
        ERROR,
    ),
    inside(
        "a message of quotes",
        "one character becomes six on the wire",
        "send('\\x00' * 4000)\nreturn [0]",
        ERROR,
    ),
    inside(
        "a message in itself",
        "never end on the wire",
        "x = []\nx.append(x)\nsend(x)\nreturn [0]",
        ERROR,
    ),
    inside(
        "a web of messages",
        "a few lists with billions of paths through them",
        "x = [0]\nfor n in range(7):\n    x = [x] * 99\nsend(x)\nreturn [0]",
        ERROR,
    ),
    inside(
        "a function as message",
        "an object in the client's process",
        "send(choose)\nreturn [0]",
        ERROR,
    ),
    harmless(
        "a generator as message",
        "an object in the client's process: it is a list here",
        "send(x for x in [1])\nreturn [0]",
    ),
    inside("an infinity as message", "JSON has none", "send(1e999)\nreturn [0]", ERROR),
    inside(
        "a message that is no number", "JSON has none", "send(1e999 - 1e999)\nreturn [0]", ERROR
    ),
    inside(
        "a huge number as message", "clients count to 2**53", "send(2 ** 400)\nreturn [0]", ERROR
    ),
    inside(
        "a lone surrogate as message",
        "text that has no bytes",
        "send('\\ud800')\nreturn [0]",
        ERROR,
    ),
    inside(
        "a lone surrogate as a message's key",
        "text that has no bytes",
        "send({'\\udfff': 1})\nreturn [0]",
        ERROR,
    ),
    inside(
        "a message with keys that are no text",
        "JSON has text alone",
        "send({1: 2, None: 3})\nreturn [0]",
        ERROR,
    ),
    inside("send without a value", "a wrong call", "send()\nreturn [0]", ERROR),
    inside("receive with a value", "a wrong call", "receive(0)\nreturn [0]", ERROR),
    harmless(
        "receive more than there is",
        "an end that is no end",
        "return [0 if [receive() for n in range(999)] == [None] * 999 else 1]",
    ),
    whole(
        "messages and then an error",
        "what was sent before a failure is not delivered",
        """
        def choose(view, request):
            send("before")
            raise ValueError("after")
        """,
        ERROR,
    ),
    whole(
        "messages and then no answer",
        "what was sent before a bad answer is not delivered",
        """
        def choose(view, request):
            send("before")
            return choose
        """,
        frozenset({"bad-result"}),
    ),
]
