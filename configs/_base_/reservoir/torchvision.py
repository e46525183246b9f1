# ReservoirTTA for the rows of the paper on single frames: torchvision's VGG-19, which is downloaded
# at the first run (550 MB). Without this line the bundled filters are used.
reservoir = dict(preset="stream", style=dict(weights="torchvision"))
