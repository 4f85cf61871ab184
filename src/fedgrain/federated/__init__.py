"""Federated training: local training, FedAvg, FedBDFT (method, section 10)."""

from fedgrain.federated.algorithm import (
    Encoded,
    FederatedAlgorithm,
    FinalModel,
    build_algorithm,
)
from fedgrain.federated.averaging import RunningAverage, ServerSettings, server_step
from fedgrain.federated.early_stopping import EarlyStopping
from fedgrain.federated.engine import Engine, Task
from fedgrain.federated.faults import Fault, Kind
from fedgrain.federated.fedavg import FedAvg
from fedgrain.federated.fedbdft import FedBDFT
from fedgrain.federated.federation import (
    Client,
    Federation,
    ImageSource,
    LabelledPart,
    Source,
)
from fedgrain.federated.local_training import LocalSettings, TrainingData, Update, train_locally
from fedgrain.federated.round_report import RoundReport
from fedgrain.federated.scaffold import Scaffold
from fedgrain.federated.schedules import Schedule
from fedgrain.federated.settings import TrainingSettings

__all__ = [
    "Client",
    "EarlyStopping",
    "Encoded",
    "Engine",
    "Fault",
    "FedAvg",
    "FedBDFT",
    "FederatedAlgorithm",
    "Federation",
    "FinalModel",
    "ImageSource",
    "Kind",
    "LabelledPart",
    "LocalSettings",
    "RoundReport",
    "RunningAverage",
    "Scaffold",
    "Schedule",
    "ServerSettings",
    "Source",
    "Task",
    "TrainingData",
    "TrainingSettings",
    "Update",
    "build_algorithm",
    "server_step",
    "train_locally",
]
