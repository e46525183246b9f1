# The original CoTTA: all weights adapt, and one in a hundred goes back to the source each time.
_base_ = "./segformer-tiny_cotta.py"
params = dict(type="all", under="")
method = dict(restore=0.01)
