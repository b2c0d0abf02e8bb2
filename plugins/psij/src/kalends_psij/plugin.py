"""What PSI/J loads. It runs this file by its path, besides any import: so nothing is defined here."""

from kalends_psij.executor import KalendsExecutor as KalendsExecutor
