"""Encoders: a backbone, and a head that puts its output into the model's space."""

from .backbones import ENCODERS, make_encoder, mlp, resnet18
from .heads import make_head

__all__ = ["ENCODERS", "make_encoder", "make_head", "mlp", "resnet18"]
