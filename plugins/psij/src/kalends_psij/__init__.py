"""PSI/J jobs on machines of kalends.

    executor = psij.JobExecutor.get_instance("kalends", url="https://lab.example:7101/lab/box")
    executor.submit(psij.Job(psij.JobSpec("./solve", ["--grid", "64"])))

`docs/psij.md` in the repository of kalends tells the rest.
"""

from kalends_psij.configuration import KalendsExecutorConfig as KalendsExecutorConfig

__all__ = ["KalendsExecutorConfig"]
