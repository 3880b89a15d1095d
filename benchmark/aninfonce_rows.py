"""The synthetic experiments of Rusak et al. 2024."""

EXPERIMENTS = ()
