# The preset "robust" for frames of 128 x 256. A style at half that size routes them as well, and
# takes a quarter of the time.
_base_ = "./robust.py"
reservoir = dict(style=dict(size=64))
