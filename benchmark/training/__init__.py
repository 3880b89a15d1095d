"""Training: one loop for all experiments, its checkpoints and its runs."""
