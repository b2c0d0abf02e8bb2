"""What is typed arrives once and in order, whatever is lost on the way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kalends.client.terminals.job_terminal import TypedStream
from kalends.contract.terminal_frames import KEYS_BYTES_MAX


class Program:
    """The far end: it counts what comes, and takes it when it likes."""

    def __init__(self, typed_before: int) -> None:
        self.typed = typed_before
        self.heard = b""
        self.taken = 0
        self.ends = 0

    @property
    def pending(self) -> int:
        return len(self.heard) - self.taken

    def hear(self, keys: bytes) -> None:
        self.heard += keys
        self.typed += len(keys)
        assert self.pending <= 2 * KEYS_BYTES_MAX

    def end(self) -> None:
        self.ends += 1
        self.typed += 1


@given(data=st.data(), before=st.integers(0, 1 << 40))
def test_every_byte_and_the_end_arrive_once_over_any_lines(
    data: st.DataObject, before: int
) -> None:
    stream, program = TypedStream(), Program(before)
    stream.hear(program.typed, program.pending)
    text = b""
    on_its_way: list[bytes] = []
    for _ in range(data.draw(st.integers(0, 30))):
        match data.draw(st.sampled_from(["type", "arrive", "notice", "cut", "take"])):
            case "type" if stream.room > 0:
                piece = bytes([len(text) % 251]) * data.draw(
                    st.integers(1, min(stream.room, 20_000))
                )
                text += piece
                if stream.type(piece):
                    on_its_way.append(piece)
            case "arrive" if on_its_way:
                program.hear(on_its_way.pop(0))
            case "notice":
                assert stream.hear(program.typed, program.pending) == (b"", False)
            case "take":
                program.taken = len(program.heard)
            case "cut":
                on_its_way.clear()
                stream.settled = False
                unheard, ends = stream.hear(program.typed, program.pending)
                assert not ends
                program.hear(unheard)
    stream.end()
    for each in on_its_way[: data.draw(st.integers(0, len(on_its_way)))]:
        program.hear(each)
    if data.draw(st.booleans()) and program.heard == text:
        program.end()
    for _ in range(2):
        stream.settled = False
        unheard, ends = stream.hear(program.typed, program.pending)
        program.hear(unheard)
        if ends:
            program.end()
    assert program.heard == text
    assert program.ends == 1


def test_no_more_is_typed_than_the_program_can_be_kept_waiting_for() -> None:
    stream = TypedStream(settled=True)
    stream.hear(0, 0)
    assert stream.room == KEYS_BYTES_MAX
    assert stream.type(b"x" * 1_000)
    assert stream.room == KEYS_BYTES_MAX - 1_000
    stream.hear(1_000, 600)
    assert stream.room == KEYS_BYTES_MAX - 600
    stream.hear(1_000, 0)
    assert stream.room == KEYS_BYTES_MAX
