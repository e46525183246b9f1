# The original CoTTA: all weights adapt, and one in a hundred is reset to the source at each step.
_base_ = "./segformer-tiny_cotta.py"
params = dict(type="all", under="")
method = dict(restore=0.01)
