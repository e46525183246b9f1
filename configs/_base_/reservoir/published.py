# ReservoirTTA as published, with the paper's style memory. A config names a preset and does not
# repeat its options, so that another preset can replace it. Most options, with their values here:
#
# k_max=16                          the largest number of experts
# style.type="vgg"                  or "model": taps of the source model itself
# style.weights="shipped"           VGG-19: checkpoints/vgg19_front.safetensors; "torchvision"
#                                   downloads its file (550 MB), a path uses a copy, "seeded" random
# style.taps="shallow"              and style.statistic="logvar", style.size=None, .crop=None
# calibration.file=None             calibration.safetensors of an earlier run; no source is needed
# memory.type="reservoir"           memory.capacity=1024
# clustering.type="information"     clustering.distance, .temperature, .lr, .weight_decay, ...
# router.type="style"               router.quantile=0.999 (tau), .assign="before", .learn_from
# pipeline.init="mi"                or "source", "mi_fresh", "top3"; .predict, .ensemble, .one_hot
#
# A run logs all of them with their values, and stores them in results.json.
reservoir = dict(preset="published")
