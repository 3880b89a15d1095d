"""bfloat16 on processors that name AMX and cannot run it, as on some virtual machines."""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

LIMIT, WITHOUT_AMX = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16"  # what torch's oneDNN may use
_CPU = Path("/proc/cpuinfo")
_PROBE = "import torch; torch.nn.Linear(256, 16).bfloat16()(torch.ones(8, 256).bfloat16())"


@cache
def avoid_broken_amx() -> None:
    """Keep torch off AMX in this process and those it starts, if a process that uses it dies.

    The first layer in bfloat16 would end this one by an illegal instruction. To be called before
    torch computes anything on the CPU, as it looks for what it may use but once.
    """
    if LIMIT in os.environ or not _CPU.exists() or "amx_bf16" not in _CPU.read_text().split():
        return
    done = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, check=False)
    if done.returncode < 0:
        os.environ[LIMIT] = WITHOUT_AMX
