"""Experiments: a config, a run that can always be resumed, and the model it leaves behind.

Import from the modules, or from :mod:`fedgrain`; nothing is imported here, because the command line
reads the config's settings and must not wait for torch.
"""
