"""A discrete-event simulation of the real work plan: nodes, workers, journals, a shared disk.

It knows nothing of `ident3d.scale.forecast`. Every image is rendered by a worker, handed to its
node's parent, which writes it to the shared disk; a whole file is written once more, and hashed.
Nodes are slow, or lost at random instants: then they come back, start anew, and take up the file
that they, or others, had begun, without the images in hand.
"""

from dataclasses import dataclass

import numpy as np
import simpy


@dataclass(frozen=True)
class Cluster:
    nodes: int
    workers: int  # of each node
    image: float  # seconds of a worker
    store: float  # seconds of the parent for each image, besides waiting for the disk
    size: float  # bytes of an image
    disk: float  # bytes a second, for all nodes together
    start: float  # seconds until a node renders
    jitter: float = 0.1  # standard deviation of an image's time, as a share of it
    slow: float = 0.0  # share of the nodes that take twice as long
    lost_per_day: float = 0.0  # of each node


class Simulation:
    """Render the files of a plan; `seconds` is when the last one is finished."""

    def __init__(self, tasks, cluster, seed=0):
        self.cluster, self.tasks = cluster, list(tasks)
        self.left = {task.name: task.rows for task in tasks}  # images not in the journal
        self.rendered = 0
        self.losses = 0
        self.finished = []
        self._rng = np.random.default_rng(seed)
        self._world = simpy.Environment()
        self._disk = simpy.Resource(self._world)
        slow = round(cluster.slow * cluster.nodes)
        for node in range(cluster.nodes):
            self._world.process(self._node(2.0 if node < slow else 1.0))
        self._done = self._world.event()
        self._world.run(self._done)
        self.seconds = self._world.now

    def _node(self, factor):
        """Take file after file; a loss ends the attempt, and the file goes back to the others."""
        until_loss = self._next_loss()
        yield self._world.timeout(self.cluster.start)
        while self.tasks:
            task = self.tasks.pop(0)
            work = self._world.process(self._file(task, factor))
            lost = self._world.timeout(max(0.0, until_loss - self._world.now))
            yield self._world.any_of([work, lost])
            if work.is_alive:
                work.interrupt()
                self.losses += 1
                self.tasks.insert(0, task)
                yield self._world.timeout(self.cluster.start)
                until_loss = self._world.now + self._next_loss()

    def _next_loss(self):
        rate = self.cluster.lost_per_day / 86400
        return self._rng.exponential(1 / rate) if rate else float("inf")

    def _file(self, task, factor):
        parent = simpy.Resource(self._world)
        workers = [
            self._world.process(self._worker(task, factor, parent))
            for _ in range(self.cluster.workers)
        ]
        try:
            yield simpy.AllOf(self._world, workers)
            for _ in range(task.rows):  # the whole file, in pieces that others come between
                yield from self._write()
            self.finished.append(task.name)
            if len(self.finished) == len(self.left):
                self._done.succeed()
        except simpy.Interrupt:
            for worker in workers:
                if worker.is_alive:
                    worker.interrupt()

    def _worker(self, task, factor, parent):
        spread = self.cluster.image * self.cluster.jitter
        try:
            while self.left[task.name] > 0:
                self.left[task.name] -= 1  # in hand
                try:
                    image = max(0.0, self._rng.normal(self.cluster.image, spread))
                    yield self._world.timeout(factor * image)
                    with parent.request() as turn:
                        yield turn
                        yield self._world.timeout(self.cluster.store)
                        yield from self._write()
                    self.rendered += 1
                except simpy.Interrupt:
                    self.left[task.name] += 1
                    raise
        except simpy.Interrupt:
            return

    def _write(self):
        with self._disk.request() as turn:
            yield turn
            yield self._world.timeout(self.cluster.size / self.cluster.disk)
