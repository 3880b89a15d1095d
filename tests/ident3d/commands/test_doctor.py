"""The doctor must answer whatever is missing, broken or crashing."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from ident3d.cli import cli
from ident3d.commands import doctor_command as doctor
from ident3d.commands.doctor_command import CHECKS, Check, examine, folder_finding


def check(feature):
    return next(check for check in CHECKS if check.feature == feature)


@pytest.fixture
def only_core(monkeypatch):
    """Check reading alone: importing Blender and torch takes long."""
    monkeypatch.setattr(doctor, "CHECKS", [check("read data"), check("look-ups")])


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Make a module of the given source importable, here and in the doctor's processes."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)

    def make(source, name="patient"):
        (tmp_path / f"{name}.py").write_text(source)
        return Check("testing", (name,), "pip install patient", f"detail = str({name}.x)")

    return make


def test_it_tells_what_works(only_core):
    result = CliRunner().invoke(cli, ["doctor"])
    assert result.exit_code == 0, result.output
    assert "Python" in result.output
    assert "yes  read data" in result.output
    record = json.loads(CliRunner().invoke(cli, ["doctor", "--json"]).output)
    assert [finding["works"] for finding in record] == [True, True, True]
    assert set(record[0]) == {"feature", "works", "detail", "get", "facts"}


def test_what_is_missing_comes_with_its_command(monkeypatch):
    gone = {"bpy", "torch"}
    find = doctor.importlib.util.find_spec
    monkeypatch.setattr(
        doctor.importlib.util, "find_spec", lambda name: None if name in gone else find(name)
    )
    assert examine(check("torch loaders")).get == "pip install 'ident3d[torch]'"
    assert "not installed: torch" in examine(check("benchmark")).detail
    assert examine(check("rendering")).get == "pip install 'ident3d[render]'"
    monkeypatch.setattr(sys, "version_info", (3, 12, 1))
    finding = examine(check("rendering"))
    assert "Python 3.11 alone" in finding.detail
    assert finding.get == "python3.11 -m venv env && env/bin/pip install 'ident3d[render]'"


@pytest.mark.parametrize(
    ("source", "works", "detail"),
    [
        ("x = 5\nprint('noise')", True, "5"),
        ("raise RuntimeError('bad wheel')", False, "RuntimeError: bad wheel"),
        ("import os\nos.kill(os.getpid(), 11)", False, "crashed with SIGSEGV"),
        ("raise SystemExit(3)", False, "failed"),
    ],
)
def test_bad_modules_cannot_take_the_doctor_down(module, source, works, detail):
    finding = examine(module(source))
    assert (finding.works, finding.detail) == (works, detail)
    assert finding.get == (None if works else "pip install patient")


def test_a_hanging_import_is_given_up(module, monkeypatch):
    monkeypatch.setattr(doctor, "_SECONDS", 0.5)
    assert "no answer" in examine(module("import time\ntime.sleep(60)")).detail


def test_a_lacking_system_library_has_its_own_command(module):
    source = "raise ImportError('libXi.so.6: cannot open shared object file')"
    finding = examine(module(source, name="bpy"))
    assert "libXi.so.6" in finding.detail
    assert finding.get.startswith("apt-get install")


def test_both_faiss_variants_at_once_are_a_fault(monkeypatch):
    monkeypatch.setattr(doctor, "_faiss_variants", lambda: ["faiss-cpu", "faiss-gpu"])
    finding = examine(check("look-ups"))
    assert not finding.works
    assert finding.get == "pip uninstall faiss-cpu faiss-gpu && pip install faiss-cpu"


def test_the_way_to_a_gpu_is_told():
    finding = examine(check("look-ups"))
    assert finding.works
    if "CPU only" in finding.detail:
        assert finding.get == "pip uninstall faiss-cpu && pip install faiss-gpu"


def test_nothing_heavy_is_imported_here(only_core):
    heavy = "{'bpy', 'torch', 'ray'}"
    code = f"import sys, ident3d.commands.doctor_command; print({heavy} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "set()\n"


@pytest.mark.slow
def test_the_real_checks_all_answer():
    result = CliRunner().invoke(cli, ["doctor", "--json"])
    assert result.exit_code == 0, result.output
    findings = {finding["feature"]: finding for finding in json.loads(result.output)}
    assert set(findings) == {"Python", *(check.feature for check in CHECKS)}
    assert all(finding["works"] or finding["get"] for finding in findings.values())


def test_a_folder_is_tried(only_core, tmp_path):
    new = tmp_path / "not" / "yet"  # its disk is that of the folder above
    record = json.loads(CliRunner().invoke(cli, ["doctor", str(new), "--json"]).output)[-1]
    assert record["works"] and record["feature"] == "folder"
    assert set(record["facts"]) == {"free_bytes", "write_bytes_per_second"}
    assert all(number > 0 for number in record["facts"].values())
    assert list(tmp_path.iterdir()) == []
    assert "GB free" in CliRunner().invoke(cli, ["doctor", str(new)]).output


def test_a_folder_that_is_none_is_said(tmp_path):
    found = folder_finding(tmp_path / "not" / "yet")
    assert (
        found.works and f"{tmp_path}/not/yet is not there yet; tried {tmp_path}: " in found.detail
    )
    (tmp_path / "file").touch()
    found = folder_finding(tmp_path / "file")
    assert not found.works and "is a file" in found.detail


def test_a_folder_that_takes_no_file_is_told_with_exit_1(only_core):
    done = CliRunner().invoke(cli, ["doctor", "/proc"])
    assert done.exit_code == 1
    assert "NO   folder" in done.output and "choose a folder" in done.output
