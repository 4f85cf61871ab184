"""Nets: the paper's three, and the user's own (method, section 9)."""

from fedgrain.nets.build import build_net
from fedgrain.nets.cnn import ConvNet, ImageShape
from fedgrain.nets.dropout import SeededDropout, global_state, set_dropout_generator
from fedgrain.nets.squeezenet import SqueezeNet

__all__ = [
    "ConvNet",
    "ImageShape",
    "SeededDropout",
    "SqueezeNet",
    "build_net",
    "global_state",
    "set_dropout_generator",
]
