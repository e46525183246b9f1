"""The cost of the reservoir over its base method, as ratios of interleaved steps."""
