"""Lightning: two ranks on the CPU share an epoch; a run resumed in mid-epoch is the same run."""

import subprocess
import sys

MODEL = """
import sys
import torch
import lightning
import ident3d
from ident3d.loaders import PairLoader

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(3 * 64 * 64, 2)
        self.seen = []

    def training_step(self, batch, number):
        anchors, positives = batch
        self.seen.append(anchors.rows.clone())
        x, y = (self.layer(view.images.float().flatten(1) / 255) for view in batch)
        return (x - y).square().mean() + x.square().mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)

def trainer(**settings):
    quiet = dict(logger=False, enable_progress_bar=False, enable_model_summary=False)
    return lightning.Trainer(accelerator="cpu", **quiet, **settings)

def make_loader():
    pairs = ident3d.Pairs(ident3d.sample(), "normal:0.3", seed=0)
    return PairLoader(pairs, 16)
"""

DDP = """
loader = make_loader()       # before fit, as everybody writes it
len(loader)                  # as for a schedule
model = Model()
trainer(
    strategy="ddp", devices=2, max_epochs=1, enable_checkpointing=False
).fit(model, loader)
seen = torch.cat(model.seen)
both = [torch.empty_like(seen) for _ in range(2)]
torch.distributed.all_gather(both, seen)
if torch.distributed.get_rank() == 0:
    print("rows", len(torch.cat(both)), "different", len(torch.cat(both).unique()), flush=True)
"""

RESUME = """
folder = sys.argv[1]
whole = Model()
trainer(max_steps=15, enable_checkpointing=False).fit(whole, make_loader())
first, loader = Model(), make_loader()
half = trainer(max_steps=7, enable_checkpointing=False)
half.fit(first, loader)
half.save_checkpoint(folder + "/half.ckpt")
resumed, loader = Model(), make_loader()
trainer(max_steps=15, enable_checkpointing=False).fit(
    resumed, loader, ckpt_path=folder + "/half.ckpt", weights_only=False
)
assert torch.equal(torch.cat(first.seen + resumed.seen), torch.cat(whole.seen))
assert torch.equal(whole.layer.weight, resumed.layer.weight)
print("equal")
"""


def run(tmp_path, code, *arguments):
    script = tmp_path / "script.py"
    script.write_text(MODEL + code)
    done = subprocess.run(
        [sys.executable, str(script), *arguments], capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_two_ranks_share_an_epoch(tmp_path):
    # 176 rows make 5 batches of 16 for each of two ranks.
    assert "rows 160 different 160" in run(tmp_path, DDP)


def test_a_run_resumed_in_mid_epoch_has_equal_weights(tmp_path):
    assert "equal" in run(tmp_path, RESUME, str(tmp_path))
