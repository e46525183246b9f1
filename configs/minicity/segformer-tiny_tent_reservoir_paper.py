# Routing as in the paper, for comparison: on single frames the reservoir stays almost closed.
_base_ = "./segformer-tiny_tent_reservoir.py"
reservoir = dict(preset="paper")
