import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from ident3d.benchmark.results import Result, commit, environment, load, load_all

from ident3d.errors import DataError
from ident3d.outside import parse_json
from tests.support.samples import record


def test_a_record_survives_the_way_to_disk_and_back(tmp_path):
    result = record(scores={"r2": np.float32(0.5), "mcc": None})
    assert load(result.save(tmp_path)) == result
    assert load_all(tmp_path) == [result]
    assert result.scores == {"r2": 0.5, "mcc": None}


def test_numpy_becomes_plain_json():
    result = record(metric=np.arange(3.0), seed=4)
    assert result.metric == [0.0, 1.0, 2.0]
    assert json.loads(result.to_json())["correlation"] == result.correlation


def test_embeddings_lie_beside_their_record(tmp_path):
    path = record().save(tmp_path, embeddings=np.eye(3, dtype=np.int64))
    kept = np.load(path.with_suffix(".npy"), allow_pickle=False)
    assert kept.dtype == np.float64 and (kept == np.eye(3)).all()


def test_runs_have_different_ids_unless_only_the_measurement_differs():
    base = record()
    assert record(r2=0.1, seconds=5).id == base.id
    for change in (
        {"seed": 1}, {"method": "other"}, {"protocol": "as-released"}, {"tier": "full"},
        {"settings": {"steps": 7}}, {"data": None},
    ):  # fmt: skip
        assert record(**change).id != base.id
    assert record(seed=1).group == base.group


def test_copies_of_data_are_one_row_wherever_they_lie():
    here, there = (
        record(settings={"data": place, "fingerprints": ["a", "b"]}) for place in ("here", "there")
    )
    assert here.group == there.group and here.id != there.id
    unknown = [record(settings={"data": place}).group for place in ("here", "there")]
    assert unknown[0] != unknown[1]


@pytest.mark.parametrize("name", ["../../etc/passwd", "<script>", "a/b\\c", "..", "ünï", "C:"])
def test_file_names_are_ours_whatever_the_method_is_called(tmp_path, name):
    path = record(method=name).save(tmp_path / "in")
    assert path.parent == tmp_path / "in" and path.name.isascii() and len(path.name) < 200
    assert not set(path.stem) - set("abcdefghijklmnopqrstuvwxyz0123456789_-")
    assert [p.name for p in tmp_path.iterdir()] == ["in"]


def stored(tmp_path, text):
    path = tmp_path / "record.json"
    path.write_text(text, "utf-8")
    return path


def changed(**changes):
    return json.dumps(json.loads(record().to_json()) | changes)


BAD = {
    "not finite": changed(seconds=float("nan")),
    "infinite by size": changed(scores={"r2": 7}).replace("7", "1e999", 1),
    "negative infinity": changed(scores={"r2": -float("inf")}),
    "wrong type": changed(method=["InfoNCE"]),
    "score is text": changed(scores={"r2": "0.9"}),
    "score is a list": changed(scores={"r2": [0.9]}),
    "score is true": changed(scores={"r2": True}),
    "score is a table": changed(scores={"r2": {"x": 0.9}}),
    "table of factors is a score": changed(scores={"r2_per_factor": 0.9}),
    "scores missing": changed(scores=None),
    "seed is no number": changed(seed="0"),
    "seed is a fraction": changed(seed=0.5),
    "seed below zero": changed(seed=-1),
    "seed too large": changed(seed=2**63),
    "unknown protocol": changed(protocol="mine"),
    "protocol of wrong type": changed(protocol={}),
    "unknown field": changed(extra=1),
    "newer version": changed(version=3),
    "protocol of another version": changed(version=1),
    "version of wrong type": changed(version=True),
    "no kind": changed(kind="else"),
    "empty name": changed(method=" "),
    "long name": changed(method="x" * 1_000_000),
    "long setting": changed(settings={"a": "x" * 1_000_000}),
    "control characters": changed(method="a\u0000b"),
    "turned text": changed(method="a\u202eb"),
    "half a character": changed(method="x").replace('"x"', '"\\ud800"'),
    "deep settings": changed(settings={"a": [[[[[[[1]]]]]]]}),
    "deep nesting": "[" * 100_000,
    "many settings": changed(settings={str(i): i for i in range(1000)}),
    "uneven curves": changed(curves={"step": [1, 2], "loss": [1]}),
    "curve of text": changed(curves={"loss": ["<b>"]}),
    "steps below zero": changed(curves={"step": [-5, -4], "loss": [1, 2]}),
    "long curve": changed(curves={"loss": [0] * 50_000}),
    "ragged matrix": changed(correlation=[[1, 2], [3]]),
    "large matrix": changed(correlation=[[0] * 300] * 2),
    "points of one side": changed(points={"true": [[1]]}),
    "uneven points": changed(points={"true": [[1]], "predicted": [[1], [2]]}),
    "points of other width": changed(points={"true": [[1]], "predicted": [[1, 2]]}),
    "data without fingerprint": changed(data={"name": "x"}),
    "negative time": changed(seconds=-1),
    "key twice": changed().replace('"seed": 0', '"seed": 0, "seed": 1'),
    "a list": "[]",
    "a number": "3",
    "no JSON": "{",
    "an endless integer": changed(settings={"a": 7}).replace("7", "7" * 1_000_000, 1),
    "a long unknown field": changed(**{"x" * 1_000_000: 1}),
    "infinite curve": changed(curves={"loss": [7]}).replace("7", "-1e999", 1),
    "an integer of 64 bits and more": changed(settings={"a": 2**63}),
    "third side of points": changed(points={k: [[1]] for k in ("true", "predicted", "x")}),
    "wide points": changed(points={k: [[1] * 300] for k in ("true", "predicted")}),
    "no version": changed().replace('"version": 2', '"seed": 0', 1).replace('"seed": 0, ', "", 1),
}


@pytest.mark.parametrize("why", BAD)
def test_a_bad_record_is_refused_in_one_sentence(tmp_path, why):
    path = stored(tmp_path, BAD[why])
    with pytest.raises(DataError) as caught:
        load_all(tmp_path)
    sentence = str(caught.value)
    assert str(path) in sentence and "\n" not in sentence and len(sentence) < 500


def test_a_huge_file_and_bad_bytes_are_refused(tmp_path):
    path = tmp_path / "record.json"
    path.write_bytes(b" " * 9_000_000)
    with pytest.raises(DataError, match="more than 8,000,000 bytes"):
        load(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="no valid JSON"):
        load(path)


def test_links_are_not_followed(tmp_path):
    real = record().save(tmp_path / "elsewhere")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "link.json").symlink_to(real)
    with pytest.raises(DataError, match="plain file"):
        load_all(tmp_path / "results")
    (tmp_path / "results" / "link.json").unlink()
    (tmp_path / "results" / "folder").symlink_to(real.parent)
    assert load_all(tmp_path / "results") == []


def test_the_same_run_twice_is_refused_or_left_out(tmp_path):
    path = record().save(tmp_path)
    (tmp_path / "copy.json").write_bytes(path.read_bytes())
    with pytest.raises(DataError, match="repeats the run"):
        load_all(tmp_path)
    refused = []
    assert len(load_all(tmp_path, refused)) == 1
    assert len(refused) == 1


def test_good_records_are_kept_when_bad_ones_are_left_out(tmp_path):
    record().save(tmp_path)
    stored(tmp_path, "{")
    refused = []
    assert load_all(tmp_path, refused) == [record()]
    assert "record.json" in refused[0]


def test_not_computed_is_none_never_nan():
    with pytest.raises(ValueError, match="write None"):
        record(scores={"r2": float("nan")})
    assert record(curves={"loss": [1.0, None]}).curves == {"loss": [1.0, None]}


def test_text_is_parsed_as_strictly_as_files():
    assert Result.from_json(record().to_json()) == record()
    with pytest.raises(DataError, match="stands twice"):
        Result.from_json(BAD["key twice"])


def test_every_refusal_names_the_field(tmp_path):
    for why, field in {
        "wrong type": "`method` must be text, got a list",
        "score is text": "`scores[...]` must be a whole number or a number",
        "score is a table": "`scores.r2` must be a number; write None",
        "table of factors is a score": "`scores.r2_per_factor` must be a table, factor by factor",
        "steps below zero": "`curves.step` must be at least 0",
        "seed below zero": "`seed` must be a whole number >= 0",
        "unknown field": "unknown field `extra`",
        "newer version": "`version` must be 1 or 2, got 3; update ident3d",
        "curve of text": "`curves[...][0]` must be",
        "large matrix": "`correlation[0]` must be a list of length <= 256",
        "data without fingerprint": "`data`: Object missing required field `fingerprint`",
        "negative time": "`seconds` must be a number >= 0",
    }.items():
        with pytest.raises(DataError) as caught:
            load(stored(tmp_path, BAD[why]))
        assert field in str(caught.value).replace("scores.[", "scores[")


def test_construction_is_checked_as_reading_is():
    for changes in ({"method": 3}, {"seconds": -1}, {"protocol": "mine"}, {"curves": {"a": ["b"]}}):
        with pytest.raises(ValueError, match=f"`{next(iter(changes))}"):
            record(**changes)
    with pytest.raises(TypeError, match="extra"):
        record(extra=1)


def test_nesting_is_counted_outside_of_strings_alone():
    inside = json.dumps({"a": "[" * 100 + '"\\' + "{" * 100, "b\\": ["]]]", [[1]]]})
    assert parse_json(inside) == json.loads(inside)
    for text in ("[" * 33 + "]" * 33, '{"a":' * 40 + "1" + "}" * 40, '["\\\\",' + "[" * 40):
        with pytest.raises(ValueError, match="nested too deeply"):
            parse_json(text)


def test_hostile_text_of_full_size_is_refused_in_linear_time():
    keys = ",".join(f'"{number}":0' for number in range(400_000))
    texts = ["[" * 8_000_000, '"' + '\\"' * 2_000_000, "[]," * 2_000_000, "{" + keys + ',"7":0}']
    start = time.process_time()
    for text in texts:
        with pytest.raises(ValueError):
            parse_json(text)
    assert time.process_time() - start < 60  # quadratic: hours


def test_ids_of_records_of_0_1_0_have_not_changed():
    paths = sorted((Path(__file__).parents[2] / "support" / "legacy" / "results").glob("*.json"))
    assert len(paths) == 4
    assert [load(path).id for path in paths] == [path.stem for path in paths]


def test_the_environment_names_versions_but_no_people():
    found = environment()
    assert found["packages"]["numpy"] == np.__version__
    assert record(environment=found).environment == found
    assert commit() is None or len(commit()) >= 40


def test_the_commit_is_that_of_the_code_not_of_the_folder_around_it(tmp_path, monkeypatch):
    """As where ident3d is installed in a virtual environment inside somebody's own repository."""
    module = sys.modules[commit.__module__]
    copy = tmp_path / "venv" / "environment.py"
    copy.parent.mkdir()
    copy.write_bytes(Path(module.__file__).read_bytes())
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@y"]
    (tmp_path / "mine.py").touch()
    for words in (["init", "-q"], ["add", "mine.py"], ["commit", "-qm", "mine"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setattr(module, "__file__", str(copy))
    assert commit() is None
    subprocess.run([*git, "add", "-f", str(copy)], check=True)
    assert len(commit()) == 46 and commit().endswith("-dirty")
    subprocess.run([*git, "commit", "-qm", "ours"], check=True)
    assert len(commit()) == 40


def test_a_record_of_version_1_keeps_its_protocol_and_id(tmp_path):
    old = record(protocol="clean", version=1)
    assert load(old.save(tmp_path)) == old
    assert old.id.startswith("table4-1_infonce_small_clean_s0_")
    with pytest.raises(ValueError, match="must be one of held-out, as-released; got 'paper'"):
        record(protocol="paper")
