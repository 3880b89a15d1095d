"""The forecast against pen and paper, and against a simulation of the real work plan."""

from dataclasses import replace

import pytest
from ident3d.render.plan import make_plan
from ident3d.render.presets import quality
from ident3d.render.spec import Spec

from ident3d.scale.forecast import Site, Work, forecast, makespan, nodes_that_fill
from tests.support.simulation import Cluster, Simulation

SITE = Site(start=10, disk=1e9)


def test_whoever_is_free_takes_the_next_piece():
    assert makespan([3, 3, 3], [1, 1]) == 6
    assert makespan([4, 1, 1, 1], [1, 1]) == 4
    assert makespan([1] * 10, [1, 0.25]) == 8  # the slow one takes 2 of them, the quick one 8
    assert makespan([], [1]) == 0


def test_what_is_the_limit():
    even = Work([100] * 1000, 1000)
    assert forecast(even, SITE, 10).limit == "nodes"
    assert forecast(even, SITE, 700).limit == "pieces"  # two rounds for 1.43
    assert forecast(even, SITE, 5000).limit == "pieces"
    assert forecast(Work([100] * 1000, 1e14), SITE, 10).limit == "disk"
    assert forecast(Work([1.0] * 1000, 1000), SITE, 1000).limit == "start"
    assert nodes_that_fill(Work([100] * 1000, 1e12), SITE) == 100


def test_more_nodes_are_never_slower_and_a_bad_day_is():
    work = Work([60.0] * 333, 1e9)
    found = [forecast(work, SITE, nodes) for nodes in (1, 2, 8, 64, 512)]
    times = [one.seconds for one in found]
    assert times == sorted(times, reverse=True)
    assert all(one.seconds_if_slow >= one.seconds for one in found)
    assert all(0 < one.busy <= 1 for one in found)


BASE = Cluster(nodes=8, workers=1, image=0.5, store=0.002, size=150e3, disk=1e9, start=5)
CASES = {
    "one": replace(BASE, nodes=1),
    "eight": BASE,
    "few files": replace(BASE, nodes=64),
    "more nodes than files": replace(BASE, nodes=512),
    "nodes of eight": replace(BASE, workers=8, nodes=4),
    "stragglers": replace(BASE, nodes=20, slow=0.05),
    "lost nodes": replace(BASE, lost_per_day=200),
    "slow disk": replace(BASE, nodes=32, disk=4e6),
    "everything": replace(BASE, nodes=20, slow=0.05, lost_per_day=200, disk=12e6),
}


@pytest.mark.parametrize("name", CASES)
def test_the_forecast_agrees_with_a_simulation_of_the_plan(name, tmp_path):
    cluster = CASES[name]
    tasks = make_plan(tmp_path, Spec(quality("draft", 224)), 10_000, 50, "").tasks()
    simulated = Simulation(tasks, cluster)
    # Every image once, every file once, whatever was lost on the way.
    assert simulated.rendered == 10_000
    assert sorted(simulated.finished) == sorted(task.name for task in tasks)
    assert (simulated.losses > 0) == (cluster.lost_per_day > 0)
    writing = 2 * cluster.size / cluster.disk
    seconds = cluster.image / cluster.workers + cluster.store + writing
    work = Work([task.rows * seconds for task in tasks], 2 * 10_000 * cluster.size)
    site = Site(cluster.start, cluster.disk, cluster.lost_per_day)
    expected = forecast(work, site, cluster.nodes)
    told = expected.seconds_if_slow if cluster.slow else expected.seconds
    assert told == pytest.approx(simulated.seconds, rel=0.1)
