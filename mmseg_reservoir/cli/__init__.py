"""Command lines; nothing imports this room."""
