import pytest

from ident3d.cli import main
from ident3d.commands import demo_command as demo


@pytest.mark.slow
def test_the_demo_does_everything_and_goes_on(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(demo, "TRAIN", 40)
    monkeypatch.setattr(demo, "TEST", 30)
    monkeypatch.setattr(demo, "RENDERING", "--resolution 16 --preset draft")
    monkeypatch.setattr(demo, "ROWS", ("identity", "supervised", "1"))
    monkeypatch.setattr(
        demo, "CHANGES", "--set steps=5 --set batch=16 --set evaluations=1 --set wide_steps=3"
    )
    out = tmp_path / "with a space"
    main(["demo", str(out)])
    printed = capfd.readouterr().out
    for name in ("images.png", "traversals.png", "audit.png", "audit.json", "site/index.html"):
        assert (out / name).stat().st_size > 0
        assert name == "audit.json" or str(out / name) in printed
    assert "Supervised" in printed and "MCC" in printed
    assert "Control: linear slow features" in demo.summary(out / "results")
    stamps = {path: path.stat().st_mtime_ns for path in out.rglob("*.h5")}
    main(["demo", str(out)])  # everything is there already
    again = capfd.readouterr().out
    assert "0 runs to do, 3 already" in again
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.h5")} == stamps
