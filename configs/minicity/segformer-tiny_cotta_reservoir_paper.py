# Routing as in the paper, for comparison.
_base_ = "./segformer-tiny_cotta_reservoir.py"
reservoir = dict(preset="paper")
