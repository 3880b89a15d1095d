"""Training, scoring and ranking of encoders."""
