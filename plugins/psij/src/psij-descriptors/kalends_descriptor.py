"""Tells PSI/J of the executor ``kalends``; PSI/J runs this file whenever it is imported."""

from packaging.version import Version
from psij.descriptor import Descriptor

__PSI_J_EXECUTORS__ = [
    Descriptor(name="kalends", version=Version("0.1.0"), cls="kalends_psij.plugin.KalendsExecutor")
]
