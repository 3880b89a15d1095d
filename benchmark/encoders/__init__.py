"""Encoders: a backbone, and a head that puts its output into the model's space."""

from .heads import make_head, mlp, resnet18

__all__ = ["make_head", "mlp", "resnet18"]
