"""The program that a function's job runs. It needs Python and cloudpickle there, and nothing of kalends.

Its text is sent with the job, followed by one call of `run`. What the function prints is the output of the
job. Its end is a frame with what the function returned or raised.
"""

import base64
import contextlib
import hashlib
import os
import sys
import traceback
import zlib


def run(mark: str, result_bytes_max: int, packed: str) -> None:
    """Call the function in `packed`, and write the frame of `mark` behind all other output."""
    # The function may close its output, or lead it elsewhere.
    frame_to = os.dup(1)
    try:
        kind, content = _outcome(packed)
    except BaseException as error:
        kind, content = "raised", _raised(error)
    if len(content) > result_bytes_max:
        kind, content = "too-large", str(len(content)).encode()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    text = base64.b64encode(content).decode()
    digest = hashlib.sha256(content).hexdigest()
    frame = f"\n[{mark} {kind} {digest} {text}]\n".encode()
    while frame:
        frame = frame[os.write(frame_to, frame) :]
    os._exit(0 if kind == "returned" else 1)


def _outcome(packed: str) -> "tuple[str, bytes]":
    import cloudpickle

    function, arguments, named = cloudpickle.loads(zlib.decompress(base64.b64decode(packed)))
    return "returned", cloudpickle.dumps(function(*arguments, **named))


def _raised(error: BaseException) -> bytes:
    """Return the pickled error, or None for one that cannot be pickled, and its traceback as text."""
    import pickle

    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        import cloudpickle

        pickled: bytes = cloudpickle.dumps((error, text))
        cloudpickle.loads(pickled)
        return pickled
    except Exception:
        return pickle.dumps((None, text))
