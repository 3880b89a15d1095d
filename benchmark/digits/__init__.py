"""Handwritten digits whose latents are known: a VAE's decoder mixes them (Rusak et al. 2024, F)."""
