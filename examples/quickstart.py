"""The library in one screen; needs neither Blender, torch nor a download."""

import numpy as np

import ident3d

data = ident3d.sample()  # or ident3d.load("3dident/train")
print(data)
print(data.images[[5, 3, 9]].shape, data.latents.shape)

pairs = ident3d.Pairs(data, ident3d.Normal(0.3), seed=0)
batch = pairs.batch(16)
print(batch.anchors.images.shape, batch.positives.latents.shape)

# A representation is scored by what it says of the latents.
rng = np.random.default_rng(0)
z = data.latents
z_hat = z @ rng.normal(size=(10, 10))
print(f"R2 {ident3d.metrics.linear_r2(z, z_hat):.3f}, MCC {ident3d.metrics.mcc(z, z_hat):.3f}")
