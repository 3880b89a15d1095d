"""What the benchmark trains on: synthetic latents and images."""
