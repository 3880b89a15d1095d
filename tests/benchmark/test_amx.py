import os

import pytest
from ident3d.benchmark import amx

DIES = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"


@pytest.mark.parametrize(
    ("flags", "probe", "limit", "expected"),
    [
        ("avx2 amx_bf16 amx_tile", DIES, None, amx.WITHOUT_AMX),
        ("avx2 amx_bf16 amx_tile", "pass", None, None),
        ("avx2 amx_bf16 amx_tile", DIES, "AVX2", "AVX2"),  # what the user says counts
        ("avx2", DIES, None, None),
    ],
)
def test_amx_is_avoided_where_a_process_dies_of_it(
    tmp_path, monkeypatch, flags, probe, limit, expected
):
    (tmp_path / "cpuinfo").write_text(f"flags\t\t: fpu {flags}\n")
    monkeypatch.setattr(amx, "_CPU", tmp_path / "cpuinfo")
    monkeypatch.setattr(amx, "_PROBE", probe)
    monkeypatch.setenv(amx.LIMIT, limit or "")
    if limit is None:
        monkeypatch.delenv(amx.LIMIT)
    amx.avoid_broken_amx.__wrapped__()
    assert os.environ.get(amx.LIMIT) == expected


def test_this_machine_computes_in_bfloat16():
    torch = pytest.importorskip("torch")
    assert torch.nn.Linear(256, 16).bfloat16()(torch.ones(8, 256).bfloat16()).isfinite().all()
