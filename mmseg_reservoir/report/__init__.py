"""From results to tables and plots."""
