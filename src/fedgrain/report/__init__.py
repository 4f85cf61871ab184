"""Report pages and figures. This room may import from all before it; only ``cli`` imports it."""
