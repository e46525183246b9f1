# What every test of a classifier shares.
method = dict(type="tent")
params = dict(type="norm_affine")  # what adapts; dict(type="prompt", count=8) for vpt and dpcore
# `reservoir = dict(...)` (see reservoir.py) puts ReservoirTTA around the method.
# BatchNorm takes statistics of the batch (True), its own (False), or those that the method wants.
batch_statistics = None
randomness = dict(seed=0)  # of the stream, the source images and the reservoir
device = None  # a GPU if there is one
work_dir = None
