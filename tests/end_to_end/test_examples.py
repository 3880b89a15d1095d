import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_quick_start_runs(capsys):
    runpy.run_path(str(EXAMPLES / "quickstart.py"))
    printed = capsys.readouterr().out
    assert "(3, 64, 64, 3) (176, 10)" in printed
    assert "R2 1.000" in printed
