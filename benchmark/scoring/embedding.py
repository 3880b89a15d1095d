"""Running an encoder, ours or anybody's, over the images of a data set.

An encoder is a `torch.nn.Module` on float images (n, 3, H, W) in [0, 1], or any callable on uint8
images (n, H, W, 3) as numpy; both return (n, k).
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ident3d.augment import to_float
from ident3d.errors import DataError
from ident3d.loaders import as_tensor
from ident3d.outside import as_reals, open_plain
from ident3d.progress import progress

from ..plugins import foreign, load_object

BATCH = 512  # images per call; also what batch-norm sees where it is in training mode
Encoder = Callable[[Any], Any]


def embed(
    encoder: Encoder,
    images: Any,
    *,
    rows: np.ndarray | None = None,
    train_mode: bool = False,
    batch: int = BATCH,
    label: str = "embed",
) -> np.ndarray:
    """Return the embeddings of all images, or of some rows in their order, as float32 (n, k).

    `train_mode` leaves batch-norm, and nothing else, in training mode, as the released code does;
    its running statistics are put back afterwards. The last rows join the batch before.
    """
    parts, count = [], len(images if rows is None else rows)
    with progress(count, label) as bar, _frozen(encoder, train_mode) as run:
        for part in _batches(count, batch):
            some = images[part if rows is None else rows[part]]
            with foreign("The encoder"):
                found = run(some)
            found = as_reals(found, "encoder", np.float32)
            if found.ndim != 2 or len(found) != len(some):
                raise ValueError(
                    f"`encoder` must turn {len(some)} images into as many rows "
                    f"(n, k), got shape {found.shape}."
                )
            parts.append(found)
            bar.update(len(found))
    return np.concatenate(parts)


@contextmanager
def _frozen(encoder: Encoder, train_mode: bool) -> Iterator[Encoder]:
    """Give what embeds images as numpy; a module is in the mode wanted, without gradients.

    Afterwards it is in its old mode, and its buffers hold what they held.
    """
    if not isinstance(encoder, torch.nn.Module):
        yield lambda images: _plain(encoder(images))
        return
    was_training, buffers = encoder.training, [buffer.clone() for buffer in encoder.buffers()]
    device = next(iter(encoder.parameters()), torch.empty(0)).device
    encoder.eval()
    for module in encoder.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.train(train_mode)
    with torch.no_grad():
        try:
            yield lambda images: _plain(encoder(to_float(as_tensor(images).to(device))))
        finally:
            encoder.train(was_training)
            for buffer, old in zip(encoder.buffers(), buffers, strict=True):
                buffer.copy_(old)


def find_encoder(spec: str, weights: Path | None = None) -> Encoder:
    """Find the encoder that `module:name` means, and load its weights.

    A function or class that needs no argument makes the encoder; anything else that can be
    called is the encoder. Weights (safetensors) go into a `torch.nn.Module`.
    """
    found = load_object(spec, "encoder")
    if not callable(found):
        raise ValueError(f"`encoder` must be callable, but {spec} is a {type(found).__name__}.")
    with foreign(f"`encoder` {spec}"):
        encoder = found() if _makes_one(found) else found
    if not callable(encoder):
        raise ValueError(f"`encoder` {spec} returned a {type(encoder).__name__}, no encoder.")
    if weights is not None:
        load_weights(encoder, weights)
    return encoder


def load_weights(encoder: Any, path: Path) -> None:
    """Fill a module from a safetensors file (never a pickle: those run code)."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not isinstance(encoder, torch.nn.Module):
        raise ValueError("`weights` need an encoder that is a torch.nn.Module.")
    open_plain(path).close()  # reading a pipe would never end
    try:
        encoder.load_state_dict(load_file(path))
    except SafetensorError as error:
        raise DataError(f"{path} is no safetensors file ({error}).") from None
    except RuntimeError as error:  # names or shapes differ; torch lists them on many lines
        detail = " ".join(str(error).split())[:200].rstrip(".")
        raise DataError(f"{path} does not fit the encoder ({detail}).") from None


def _makes_one(found: Callable) -> bool:
    if isinstance(found, torch.nn.Module):
        return False
    try:
        parameters = inspect.signature(found).parameters.values()
    except ValueError:  # some built-in callables do not tell
        return False
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return all(p.default is not p.empty or p.kind in variadic for p in parameters)


def _plain(found: Any) -> Any:
    return found.detach().cpu().float().numpy() if isinstance(found, torch.Tensor) else found


def _batches(rows: int, batch: int) -> Iterable[slice]:
    """Cover all rows; a rest smaller than a batch is added to the batch before it."""
    starts = range(0, max(rows - batch, 0) + 1, batch)
    return [slice(s, rows if s == starts[-1] else s + batch) for s in starts]
