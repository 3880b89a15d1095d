"""What an experiment is, and the settings of its tiers."""
