# What every test of a classifier shares; `method` comes with the data and the row.
params = dict(type="norm_affine")  # what adapts; dict(type="prompt", count=8) for vpt and dpcore
# `reservoir = dict(...)` (see reservoir.py) puts ReservoirTTA around the method.
# What BatchNorm normalises by: "running", "batch", the share of the batch as a number, or what the
# method wants (None).
statistics = None
randomness = dict(seed=0)  # of the stream, the source images, the method and the reservoir
device = None  # a GPU if there is one
work_dir = None
