"""The same federation across machines, on Flower: transport, identity and operation.

Rounds, local training and averaging are those of :mod:`fedgrain.federated`; the ServerApp runs them
with an engine that sends tasks to the sites instead of training in this process.
"""
