import dataclasses
import json

import numpy as np
import pytest
from ident3d.render.plan import begin, declare, make_plan
from ident3d.render.presets import quality
from ident3d.render.spec import Spec

from ident3d.errors import DataError
from ident3d.shards import write_manifest

SPEC = Spec(quality("draft", 8), resolution=8)


def fill(plan, tasks=None):
    """Write the plan's files with black images, as a run would."""
    for task in plan.tasks() if tasks is None else tasks:
        with plan.open(task) as writer:
            for position in writer.missing():
                writer.put(position, np.zeros((8, 8, 3), np.uint8))
            writer.finish()


def test_the_last_shard_takes_what_is_left(tmp_path):
    plan = make_plan(tmp_path, SPEC, 10, 4, "")
    assert plan.counts == (4, 4, 2)
    assert [(task.start, task.stop) for task in plan.tasks()] == [(0, 4), (4, 8), (8, 10)]
    assert not list(tmp_path.iterdir())  # planning writes nothing


def test_pairs_are_files_of_the_same_rows(tmp_path):
    plan = make_plan(tmp_path, dataclasses.replace(SPEC, pairs="normal:0.1"), 5, 4, "")
    files = {task.name: (task.start, task.stop) for task in plan.tasks()}
    assert files == {
        "shard-00000.h5": (0, 4),
        "shard-00001.h5": (4, 5),
        "pairs-00000.h5": (0, 4),
        "pairs-00001.h5": (4, 5),
    }


def test_shares_are_disjoint_and_whole(tmp_path):
    plan = make_plan(tmp_path, SPEC, 103, 10, "")
    shares = [plan.tasks((index, 3)) for index in (1, 2, 3)]
    assert sorted(task.number for share in shares for task in share) == list(range(11))


def test_growing_keeps_the_shards_there_are(tmp_path):
    plan = begin(tmp_path, SPEC, 6, 4, "first")
    fill(plan)
    write_manifest(tmp_path, "train", plan.description)
    grown = begin(tmp_path, SPEC, 15, 5, "second")
    assert grown.counts == (4, 2, 5, 4)
    assert [grown.done(task) for task in grown.tasks()] == [True, True, False, False]
    assert grown.description.command == "second"  # which makes all of it


def test_an_unfinished_run_is_continued_with_its_own_shard_size(tmp_path):
    begin(tmp_path, SPEC, 8, 4, "first")
    assert begin(tmp_path, SPEC, 8, 100, "second").counts == (4, 4)
    assert begin(tmp_path, SPEC, 9, 100, "third").counts == (4, 4, 1)


def test_a_data_set_does_not_shrink(tmp_path):
    begin(tmp_path, SPEC, 8, 4, "")
    with pytest.raises(ValueError, match=r"`size` must not shrink: .* has 8 rows, asked for 7"):
        make_plan(tmp_path, SPEC, 7, 4, "")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"hue": "published"}, r"hue injective \(now published\)"),
        ({"resolution": 16}, r"resolution 8 \(now 16\)"),
        ({"quality": quality("published", 8)}, r"samples \d+ \(now 512\)"),
        ({"seed": 1}, r"seed 0 \(now 1\)"),
        ({"pairs": "normal:0.1"}, r"pairs none \(now normal:0.1\)"),
        ({"factors": "x"}, r"factors x,y,.* \(now x\)"),
        ({"compress": True}, r"compress False \(now True\)"),
        ({"given": np.zeros((8, 10), np.float32)}, r"latents drawn \(now given\)"),
    ],
)
@pytest.mark.parametrize("finished", [False, True])
def test_other_settings_are_refused_by_name(tmp_path, change, named, finished):
    plan = begin(tmp_path, SPEC, 8, 4, "")
    if finished:
        fill(plan)
        write_manifest(tmp_path, "train", plan.description)
    with pytest.raises(ValueError, match=named):
        begin(tmp_path, dataclasses.replace(SPEC, **change), 8, 4, "")


def test_another_split_has_its_own_settings(tmp_path):
    begin(tmp_path, SPEC, 8, 4, "")
    other = dataclasses.replace(SPEC, split="test", hue="published")
    assert begin(tmp_path, other, 3, 4, "").counts == (3,)


def test_given_latents_must_begin_with_what_is_there(tmp_path):
    latents = np.linspace(-1, 1, 80, dtype=np.float32).reshape(8, 10)
    plan = begin(tmp_path, dataclasses.replace(SPEC, given=latents[:5]), 5, 2, "")
    fill(plan)
    grown = dataclasses.replace(SPEC, given=latents)
    assert begin(tmp_path, grown, 8, 2, "").counts == (2, 2, 1, 2, 1)
    changed = latents.copy()
    changed[3, 0] = 0.5
    with pytest.raises(ValueError, match="row 3 differs"):
        begin(tmp_path, dataclasses.replace(SPEC, given=changed), 8, 2, "")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"description": {}, "counts": [1]}'])
def test_a_damaged_plan_is_one_sentence(tmp_path, text):
    begin(tmp_path, SPEC, 8, 4, "")
    (tmp_path / "train/.work/plan").write_text(text)
    with pytest.raises(DataError, match="damaged"):
        make_plan(tmp_path, SPEC, 8, 4, "")


@pytest.mark.parametrize("finished", [True, False])
def test_files_of_a_lost_plan_do_not_become_rows_of_a_smaller_one(tmp_path, finished):
    large = begin(tmp_path, SPEC, 20, 4, "")
    fill(large, large.tasks()[:1])
    name = "shard-00004.h5" if finished else r"\.work/shard-00004\.journal"
    if finished:
        fill(large, large.tasks()[4:])
    else:
        large.open(large.tasks()[4]).close()
    large.kept.unlink()
    with pytest.raises(DataError, match=f"holds files of another run: {name}; remove them"):
        begin(tmp_path, SPEC, 8, 4, "")
    small = make_plan(tmp_path, SPEC, 8, 4, "")  # as if they came after it was begun
    small.kept.touch()
    fill(small)
    small.kept.unlink()
    with pytest.raises(DataError, match=f"holds files of another run: {name}; remove them"):
        declare(small)
    assert not (tmp_path / "dataset.json").exists()
    assert begin(tmp_path, SPEC, 20, 4, "").counts == (4,) * 5


def test_wrong_sizes_and_names(tmp_path):
    with pytest.raises(ValueError, match="`size` must be between 1 and 1000000000; got 0"):
        make_plan(tmp_path, SPEC, 0, 4, "")
    with pytest.raises(
        ValueError, match="`size` must be between 1 and 1000000000; got 1000000000000"
    ):
        make_plan(tmp_path, SPEC, 10**12, 4, "")
    with pytest.raises(ValueError, match="`shard_size` must be between 10 and 1000000000; got 4"):
        make_plan(tmp_path, SPEC, 10**6, 4, "")
    with pytest.raises(ValueError, match="`split`"):
        begin(tmp_path / "new", dataclasses.replace(SPEC, split="../x"), 5, 4, "")
    assert not (tmp_path / "new").exists()


def test_the_plan_on_disk_is_json(tmp_path):
    begin(tmp_path, SPEC, 8, 4, "")
    assert json.loads((tmp_path / "train/.work/plan").read_text())["counts"] == [4, 4]
