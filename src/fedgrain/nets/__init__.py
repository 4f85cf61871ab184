"""Nets: the paper's three, and the user's own (method, section 9)."""

from fedgrain.nets.build import build_net
from fedgrain.nets.cnn import ConvNet
from fedgrain.nets.dropout import set_dropout_generator
from fedgrain.nets.squeezenet import SqueezeNet

__all__ = ["ConvNet", "SqueezeNet", "build_net", "set_dropout_generator"]
