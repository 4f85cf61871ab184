"""Federated training: local training, FedAvg, FedBDFT (method, section 10)."""

from fedgrain.federated.averaging import RunningAverage, ServerSettings, server_step
from fedgrain.federated.client import LocalSettings, TrainingData, Update, train_locally
from fedgrain.federated.early_stopping import EarlyStopping
from fedgrain.federated.engine import Engine, SequentialEngine, Task, outcome_of
from fedgrain.federated.faults import Fault, Kind
from fedgrain.federated.federation import Client, Federation, ImageSource, LabelledPart
from fedgrain.federated.plan import Plan, Report
from fedgrain.federated.workshop import Model, Workshop

__all__ = [
    "Client",
    "EarlyStopping",
    "Engine",
    "Fault",
    "Federation",
    "ImageSource",
    "Kind",
    "LabelledPart",
    "LocalSettings",
    "Model",
    "Plan",
    "Report",
    "RunningAverage",
    "SequentialEngine",
    "ServerSettings",
    "Task",
    "TrainingData",
    "Update",
    "Workshop",
    "outcome_of",
    "server_step",
    "train_locally",
]
