"""What a user's desk makes of the answers of Slurm's commands: a number, a start, no, or no answer."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import pytest

from kalends.backends.desks.handed_over import HandedOver, NoAnswer, NotTaken, QueueAccess
from kalends.backends.slurm.own_queue import LOOKS, SlurmQueue

HOW = QueueAccess(
    kind="slurm", reached_by="Slurm", system="slurm", site="lab", machine="far", look_s=10,
    options=("--qos=low",),
)  # fmt: skip
JOB = HandedOver(argv=("/bin/true",), nodes=3, limit_s=61)
NAME = "kal.lab.far.1.1.a"
AWAY = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"


class Answers:
    """Answers of Slurm's commands, by the name of the command; and the commands that came."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.by_command: dict[str, tuple[str, str, int]] = {}
        self.now_s = 0.0
        self.queue = SlurmQueue(HOW, self.run, lambda: self.now_s)

    def run(self, words: Sequence[str], wait_s: float) -> subprocess.CompletedProcess[str]:
        command = words[0].rpartition("/")[2]
        self.asked.append([command, *words[1:]])
        if command not in self.by_command:
            raise subprocess.TimeoutExpired(list(words), wait_s)
        output, errors, code = self.by_command[command]
        return subprocess.CompletedProcess(list(words), code, output, errors)

    def say(self, command: str, output: str = "", errors: str = "", code: int = 0) -> None:
        self.by_command[command] = output, errors, code

    def look(self, listing: str = "", errors: str = "") -> str | None:
        self.now_s += HOW.look_s
        self.say("squeue", listing, errors, 1 if errors else 0)
        return self.queue.gone("1.1.a")


@pytest.fixture
def slurm() -> Answers:
    answers = Answers()
    answers.say("sbatch", "412\n")
    return answers


def submit(slurm: Answers) -> str:
    return slurm.queue.submit("1.1.a", NAME, "/home/ann/.kalends/run", JOB)


def test_a_job_is_submitted_with_the_owners_options_and_in_whole_minutes(slurm: Answers) -> None:
    assert submit(slurm) == "412"
    (words,) = slurm.asked
    assert words[:4] == ["sbatch", "--qos=low", "--nodes=3", "--time=2"]
    assert {f"--job-name={NAME}", "--no-requeue", "--parsable"} < set(words)


@pytest.mark.parametrize(
    "errors", [AWAY, "sbatch: error: Batch job submission failed: Socket timed out"]
)
def test_an_answer_that_is_lost_is_no_refusal(slurm: Answers, errors: str) -> None:
    slurm.say("sbatch", errors=errors, code=1)
    with pytest.raises(NoAnswer):
        submit(slurm)
    del slurm.by_command["sbatch"]
    with pytest.raises(NoAnswer):
        submit(slurm)


def test_who_asks_again_finds_what_was_submitted_and_adds_nothing(slurm: Answers) -> None:
    del slurm.by_command["sbatch"]
    with pytest.raises(NoAnswer):
        submit(slurm)
    slurm.say("sbatch", "413\n")
    slurm.say("squeue", f"7|mine|.\n412|{NAME}|.\n")
    assert submit(slurm) == "412"
    assert [words[0] for words in slurm.asked] == ["sbatch", "squeue"]


def test_a_refusal_is_told_in_words(slurm: Answers) -> None:
    said = "sbatch: error: invalid partition specified: foo\nsbatch: error: Batch job submission failed\n"
    slurm.say("sbatch", errors=said, code=1)
    with pytest.raises(
        NotTaken, match=r"^invalid partition specified: foo; Batch job sub"
    ) as error:
        submit(slurm)
    assert not isinstance(error.value, NoAnswer)


def test_a_foreseen_start_is_read_and_a_job_that_never_starts_is_refused(slurm: Answers) -> None:
    said = "sbatch: Job 2 to start at 2026-11-27T17:36:16 using 4 processors on nodes n[1-4] in partition m"
    slurm.say("sbatch", errors=said)
    assert slurm.queue.foresee(4, 60) == 1_795_800_976
    assert "--test-only" in slurm.asked[0]
    slurm.say(
        "sbatch", errors="allocation failure: Requested node configuration is not available", code=1
    )
    with pytest.raises(NotTaken, match="is not available"):
        slurm.queue.foresee(5, 60)
    slurm.say("sbatch", errors=AWAY, code=1)
    with pytest.raises(NoAnswer):
        slurm.queue.foresee(4, 60)


def test_a_job_is_gone_when_looks_in_a_row_have_missed_it(slurm: Answers) -> None:
    submit(slurm)
    others = "7|some|thing|.\n8|other|.\n"
    assert slurm.look(others) is None
    assert slurm.look(f"{others}412|{NAME}|.\n") is None
    for _ in range(LOOKS - 1):
        assert slurm.look(others) is None
    assert slurm.look(errors=AWAY) is None
    for _ in range(LOOKS - 1):
        assert slurm.look(others) is None
    assert slurm.look(others) == ""


def test_a_listing_that_is_cut_off_tells_nothing(slurm: Answers) -> None:
    submit(slurm)
    for _ in range(LOOKS + 1):
        assert slurm.look("7|other|.\n8|oth") is None


def test_what_is_cancelled_is_known_by_its_name_alone(slurm: Answers) -> None:
    slurm.say("scancel")
    slurm.queue.cancel("1.1.a", NAME, "")
    assert slurm.asked == [["scancel", "--me", f"--name={NAME}"]]
