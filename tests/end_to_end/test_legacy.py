"""What version 0.1.0 wrote before the source was rearranged is still read: tests/support/legacy."""

import shutil
from pathlib import Path

import numpy as np
from click.testing import CliRunner
from ident3d.benchmark.results import load_all

import ident3d
from ident3d.cli import cli

LEGACY = Path(__file__).parents[1] / "support" / "legacy"


def run(*arguments):
    done = CliRunner().invoke(cli, list(map(str, arguments)), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_data_set_of_0_1_0_is_whole_and_read():
    data = ident3d.load(LEGACY / "data" / "train")
    assert len(data) == 40 and data.images.shape == (40, 16, 16, 3)
    assert data.pairs is not None and data.pairs.conditional == "normal:0.2"
    assert data.images[[7, 3]].sum() == data.images[7].sum() + data.images[3].sum() > 0
    assert np.abs(data.pairs.latents - data.latents)[:, :3].mean() < 0.3
    assert "whole, 40 rows" in run("verify", LEGACY / "data")


def test_records_of_0_1_0_are_read_and_shown(tmp_path):
    refused: list[str] = []
    found = load_all(LEGACY / "results", refused)
    assert not refused
    assert {r.experiment for r in found} == {"table2/1", "table4/1", "aninfonce/bimodal"}
    run("benchmark", "report", LEGACY / "results", "--out", tmp_path / "site")
    assert "table2/1" in (tmp_path / "site" / "leaderboard.md").read_text()


def test_entry_of_0_1_0_is_verified(tmp_path):
    # Copied, since verifying opens the folder as a stranger's: nothing else may lie in it.
    shutil.copytree(LEGACY / "entry", tmp_path / "entry")
    output = run("benchmark", "verify", tmp_path / "entry", "--data", LEGACY / "data" / "test")
    assert "agrees with its embeddings" in output
