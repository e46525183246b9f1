"""Runs: what they record, and how they resume exactly."""
