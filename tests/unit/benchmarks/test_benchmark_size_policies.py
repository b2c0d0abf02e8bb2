"""The benchmark of policies that choose and change sizes: the half of it that is simulated."""

from __future__ import annotations

from benchmarks import size_policies as command


def test_the_same_programs_come_each_time_and_only_one_policy_changes_them() -> None:
    works = command.workload(20, 8, seed=1)
    assert works == command.workload(20, 8, seed=1)
    found = {
        policy: command.simulate(policy, works, nodes=8, setup_ms=300, change_ms=5)
        for policy in command.POLICIES
    }
    assert all(mean_s > 0.3 for mean_s, _, _ in found.values())
    assert [changes > 0 for _, _, changes in found.values()] == [False, False, True]


def test_programs_of_the_benchmark_run_on_each_of_its_sizes() -> None:
    made = command.program(["10"])
    assert made.stages[0].sizes == list(command.SIZES)
    assert made.state == {"step": 0, "steps": 10}


def test_a_single_program_takes_its_start_and_its_steps() -> None:
    (mean_s, end_s, _) = command.simulate(
        "lazy", [command.Work(0.0, 40)], nodes=4, setup_ms=200, change_ms=5
    )
    assert mean_s == end_s == 0.2 + 40 * command.STEP_MS / 4 / 1_000
