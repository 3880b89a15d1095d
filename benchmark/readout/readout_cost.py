"""What a read-out would cost, told before it is started, at the published size without data."""

from ident3d.errors import DataError

from ..encoders.baselines import BASELINES
from ..training.cost import training_cost
from .image_sources import read_source
from .readout_settings import ReadoutSettings

# source -> rows to train on as published; a split is taken for one of 3DIdent's size
ROWS = {"digits": 3_500, "cifar10": 50_000, "photographs": 1_281_167, "split": 250_000}


def plan(settings: ReadoutSettings) -> str:
    """Tell steps, batches, memory, disk and time of a run; one piece of a step is measured."""
    data = settings.data
    try:
        train, test = read_source(data)
        side, rows = int(train.images.shape[1]), len(train)
        lines = [f"data: {train.name}, {rows:,} rows of {side} px to train on"]
        lines += [f"read-outs: fitted on {min(data.fitted, rows):,} of them"]
        lines[-1] += f", scored on {min(data.scored, len(test)):,} others"
    except (DataError, OSError):
        side, rows = data.side, ROWS[data.source]
        lines = [f"data: {data.folder} is not there yet; taken as {rows:,} images of {side} px"]
    if settings.loss.name in BASELINES:
        words = [*lines, "no training"]
    else:
        words = list(
            training_cost(settings.model, settings.loss, settings.training, lines, side, rows).words
        )
    return "\n".join(f"  {line}" for line in words)
