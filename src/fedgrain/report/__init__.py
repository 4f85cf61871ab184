"""Pictures: the last room, it looks at all the others and none of them looks at it."""
