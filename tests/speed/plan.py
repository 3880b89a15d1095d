"""The plan against reality: small renders on 1 and 2 workers, and on two Ray nodes.

Every forecast is made from figures measured right before, by the same number of workers: on a
machine that does other things too, rates of another minute would tell nothing. The simulation of
the tests is shown beside both.

`python -m tests.speed.plan` takes some minutes; `python -m tests.speed.plan 24` makes shorter ones.
"""

import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from ident3d.render.build import Build
from ident3d.render.cluster import render_on_cluster
from ident3d.render.estimate import try_out
from ident3d.render.plan import begin
from ident3d.render.presets import PRESETS
from ident3d.render.spec import Spec
from ident3d.render.workers import WorkerPool, WorkerSlot

from ident3d.commands.options import table
from ident3d.progress import Tracker
from ident3d.scale.forecast import Site, Work, forecast
from tests.support.simulation import Cluster, Simulation

SPEC = Spec(PRESETS["draft"], resolution=64)
RAW = 3 * 64**2
DISK = 200e6  # bytes a second; far from a limit here
FILES = 12


def expected(tasks, trial, nodes, workers):
    """Return the forecast's seconds and the simulation's."""
    image = trial.seconds_per_image / workers + trial.store_seconds
    work = Work([t.rows * image for t in tasks], 2 * RAW * sum(t.rows for t in tasks))
    told = forecast(work, Site(trial.start_seconds, DISK), nodes).seconds
    cluster = Cluster(
        nodes=nodes,
        workers=workers,
        image=trial.seconds_per_image,
        store=trial.store_seconds,
        size=RAW,
        disk=DISK,
        start=trial.start_seconds,
    )
    return told, Simulation(tasks, cluster).seconds


def local(folder, rows, workers):
    """Render on this machine; return the forecast, the simulation and what it took."""
    slots = [WorkerSlot(threads=1)] * workers
    trials = [try_out(SPEC, slots, folder) for _ in range(2)]
    plan = begin(folder / f"local-{workers}", SPEC, rows, rows // FILES, "")
    began = time.monotonic()
    with (
        Tracker(rows, "render", "image") as tracker,
        WorkerPool(SPEC.render_settings(), slots, print) as pool,
    ):
        Build(plan, pool, tracker).run(plan.tasks())
    seconds = time.monotonic() - began
    trials += [try_out(SPEC, slots, folder) for _ in range(2)]
    return *expected(plan.tasks(), mean(trials), 1, workers), seconds


def on_ray(folder, rows):
    """Render on two Ray nodes of one worker each, on this machine."""
    from ray.cluster_utils import Cluster as Nodes

    # As everything else here; otherwise others on this machine would always go first.
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (Ray spells it like this)
    nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 1})
    nodes.add_node(num_cpus=1)

    def render(name, size, shard_size):
        plan = begin(folder / name, SPEC, size, shard_size, "")
        began = time.monotonic()
        render_on_cluster(plan, plan.tasks(), nodes.address, "cpu")
        return plan.tasks(), time.monotonic() - began

    slots = [WorkerSlot(threads=1)] * 2
    try:
        trials = [try_out(SPEC, slots, folder) for _ in range(2)]
        starts = [render("before", 2, 1)[1]]
        tasks, seconds = render("ray", rows, rows // FILES)
        starts.append(render("after", 2, 1)[1])
        trials += [try_out(SPEC, slots, folder) for _ in range(2)]
    finally:
        nodes.shutdown()
    trial = mean(trials)
    # Ray has a start of its own: that of two files of one image, which has to be taken off.
    start = sum(starts) / 2 - trial.seconds_per_image - trial.store_seconds
    return *expected(tasks, replace(trial, start_seconds=start), 2, 1), seconds


def mean(trials):
    """Average the trials before and after: others' load changes by the minute."""
    names = vars(trials[0])
    return type(trials[0])(**{n: sum(getattr(t, n) for t in trials) / len(trials) for n in names})


def main(rows: int = 240) -> None:
    """Print forecast, simulation and reality side by side."""
    lines = []
    with tempfile.TemporaryDirectory() as name:
        for what, run in (
            ("1 worker", lambda: local(Path(name), rows, 1)),
            ("2 workers", lambda: local(Path(name), rows, 2)),
            ("2 Ray nodes", lambda: on_ray(Path(name), rows)),
        ):
            load = os.getloadavg()[0]
            told, simulated, seconds = run()
            cells = (f"{value:.1f}" for value in (told, simulated, seconds))
            lines.append([what, *cells, f"{told / seconds:.2f}", f"{load:.1f}"])
    header = [f"{rows} images of 64 px", "plan, s", "simulation, s", "took, s", "ratio", "load"]
    print(table(lines, header))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
