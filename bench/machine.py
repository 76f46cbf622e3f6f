"""What the numbers were measured on, without saying whose machine it is."""

import os
import platform
from pathlib import Path

import msgspec
from msgspec import Struct

from agentforge.system.mount_points import read_mounts


class Machine(Struct, frozen=True):
    system: str
    processor: str
    cores: int
    load: float
    """Programs that wanted a core, in the last minute; more than there are cores means that the times are
    those of a busy machine."""
    memory_gb: float
    file_system: str
    python: str
    msgspec: str


def machine(root: Path) -> Machine:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return Machine(
        system=f"{platform.system()} {platform.release().split('-')[0]}",
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        load=round(os.getloadavg()[0], 1),
        memory_gb=round(memory, 1),
        file_system=file_system(root),
        python=platform.python_version(),
        msgspec=msgspec.__version__,
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def file_system(root: Path) -> str:
    real = f"{root.resolve()}/"
    over = [mount for mount in read_mounts() if real.startswith(mount.point.rstrip("/") + "/")]
    return max(over, key=lambda mount: len(mount.point)).type if over else "unknown"
