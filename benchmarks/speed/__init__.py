"""What the reservoir costs beside its base method, as ratios of interleaved steps."""
