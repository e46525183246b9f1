"""Hooks of mmengine, one per file."""
