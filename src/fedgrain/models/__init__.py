"""Trained models: net, head, tree and preprocessing, in a folder that predicts anywhere."""
