"""An ordinary Flower client: TensorDataset, DataLoader, plain SGD, one thread."""

from __future__ import annotations

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from peer_side import BATCH, LR, Net, client_data
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

client_app = ClientApp()


@client_app.train()
def train(message: Message, context: Context) -> Message:
    """Train one epoch from the weights in the message."""
    torch.set_num_threads(1)
    net = Net()
    net.load_state_dict(message.content["arrays"].to_torch_state_dict())
    dataset = TensorDataset(*client_data(int(context.node_config["partition-id"])))
    optimizer = torch.optim.SGD(net.parameters(), lr=LR)
    for images, classes in DataLoader(dataset, batch_size=BATCH, shuffle=True, num_workers=0):
        optimizer.zero_grad()
        functional.cross_entropy(net(images), classes).backward()
        optimizer.step()
    metrics = MetricRecord({"num-examples": len(dataset)})
    content = RecordDict({"arrays": ArrayRecord(net.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)
