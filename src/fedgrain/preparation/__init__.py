"""From a config to a federation: settings, images, clients, what they know and write."""
