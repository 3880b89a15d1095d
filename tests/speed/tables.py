"""What tables 1 and 2 take at three seeds: CPU time of a few steps of every kind of row, added up.

`python -m tests.speed.tables` takes about a minute on one core. CPU time, so that other work on the
machine counts little; two cores share it if `benchmark run --workers 2` does.
"""

import time

import torch
from ident3d.benchmark.experiments.select import select
from ident3d.benchmark.settings.composed import plain
from ident3d.benchmark.training import synthetic_run

from ident3d.commands.options import table

STEPS, SEEDS = 100, 3
# What makes a row dear: its samplers, its loss and its space. Widths and budgets do not.
KIND = ("space", "marginal", "conditionals", "model_space", "similarity", "loss", "turned")


def kind(settings):
    """Return what rows share that take equally long for a step."""
    found = plain(settings)
    words = (str(found.get(name, "")) for name in KIND)
    return tuple(word.partition(":")[0] for word in words)


def cost(settings):
    """Return the CPU seconds of a step, and of what is done once in a run."""
    began = time.process_time()
    synthetic_run.run(settings.with_(steps=1, evaluations=1), 0, None, "")
    once = time.process_time()
    synthetic_run.run(settings.with_(steps=1 + STEPS, evaluations=1), 0, None, "")
    ended = time.process_time()
    return max(0.0, ended - once - (once - began)) / STEPS, once - began


def main():
    torch.set_num_threads(1)
    rows = {e.id: e.tiers["cpu"] for e in select(["table1", "table2"])}
    trained = {name: s for name, s in rows.items() if s.loss.name != "identity"}
    costs, lines = {}, []
    for name, settings in trained.items():
        if (key := kind(settings)) not in costs:
            costs[key] = step, once = cost(settings)
            lines.append([name, f"{1000 * step:.1f} ms", f"{once:.1f} s"])
    print(table(lines, ["first row of its kind", "a step", "once"]))
    steps = sum(settings.training.steps for settings in trained.values())
    seconds = SEEDS * sum(
        costs[kind(settings)][0] * settings.training.steps + costs[kind(settings)][1]
        for settings in trained.values()
    )
    print(f"{len(trained)} rows, {steps:,} steps, {SEEDS} seeds: {seconds / 60:.0f} CPU minutes")


if __name__ == "__main__":
    main()
