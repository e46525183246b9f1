# Shared by every test of a classifier. A table adds the rest: `data`, `model`, `stream`,
# `source_images`, the optimizer of all methods (`method`), and the rows,
#
# rows = dict(tent=dict(), eata=dict(method=dict(d_margin=0.4), params=dict(skip=("layer4",))))
#
# of which `--method NAME` takes one. Its options override the rest, and a group of another type
# (an optimizer, params) replaces the group. `--with-reservoir` takes `with_reservoir`, too.
params = dict(type="norm_affine")  # what adapts; dict(type="prompt", count=8) for vpt and dpcore
# What BatchNorm normalizes by: "running", "batch", the weight of the batch as a number, or what the
# method wants (None).
statistics = None
randomness = dict(seed=0)  # of the stream, the source images, the method and the reservoir
device = None  # a GPU if there is one
work_dir = None
# A killed run continues with --resume: its state is saved at the end of every round, and
# every so many minutes (or `images`).
saving = dict(minutes=10.0)
