"""The dataset card, README.md: what people read, and where the Hub finds each split's files."""

from collections.abc import Mapping

from ..factors import Factor
from .layout import FOLDER, Split, files_of


def card(splits: Mapping[str, Split], ending: str) -> str:
    """Write the card of all splits of a folder."""
    first = next(iter(splits.values()))
    height, width, _ = first.resolution
    configs = "".join(
        f"  - split: {name}\n    path: {FOLDER}/{files_of(name, ending)}\n" for name in splits
    )
    counts = "\n".join(
        f"| {name} | {sum(split.shards):,} | {split.description.pairs or 'none'} "
        f"| `{split.fingerprint[:16]}` |"
        for name, split in splits.items()
    )
    classes = first.description.class_names
    return f"""---
pretty_name: ident3d
task_categories:
- image-feature-extraction
tags:
- identifiability
- 3DIdent
configs:
- config_name: default
  data_files:
{configs.rstrip()}
---

# Images with their ground-truth factors

{width} x {height} pixels, rendered by the factors below; written by `ident3d export`.

| split | images | rendered positives | fingerprint |
|---|---|---|---|
{counts}

`latents` are the factors in [-1, 1], in this order, linear in the scene's units:

| factor | scene range |
|---|---|
{_table(first.description.factors)}
{f"{chr(10)}`class` numbers {', '.join(classes)}.{chr(10)}" if classes else ""}
{_USE[ending]}
`ident3d import` reads this folder back into ident3d's own format, shard by shard as it was.
"""


def _table(factors: tuple[Factor, ...]) -> str:
    return "\n".join(f"| {f.name} | {f.low:.4g} to {f.high:.4g} {f.unit} |" for f in factors)


_USE = {
    "parquet": """```python
from datasets import load_dataset

data = load_dataset("this/folder")["train"]
data[0]["image"], data[0]["latents"]  # a PIL image, a list of floats; "positive" where rendered
```
""",
    "tar": """```python
import webdataset as wds

data = wds.WebDataset("data/train-00000.tar", shardshuffle=False).decode("rgb8")
for image, latents in data.to_tuple("png", "latents.npy"):  # "positive.png" where rendered
    ...
```
""",
}
