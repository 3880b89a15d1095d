"""What representations learned from augmentations keep: of the augmentations, classes, latents."""
