"""Names and numbers of the published classification data sets: plain constants, no imports but re.

Those who read the data sets (`cls.datasets`) and those who check them (`check.layouts`) agree here.
"""

import re

CORRUPTIONS = (
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "defocus_blur",
    "glass_blur",
    "motion_blur",
    "zoom_blur",
    "snow",
    "frost",
    "fog",
    "brightness",
    "contrast",
    "elastic_transform",
    "pixelate",
    "jpeg_compression",
)
"""The fifteen of CIFAR-C and ImageNet-C, in the order of the published streams."""
EXTRA_CORRUPTIONS = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
"""Four more, which the authors meant for validation."""

CIFAR_C_IMAGES = 10_000
"""Of each severity; the five follow one another in a file."""
IMAGENET_C_IMAGES = 50_000
"""Of each corruption and severity."""
IMAGENET_CLASSES = 1000

DOMAINNET_DOMAINS = ("real", "painting", "clipart", "sketch")
DOMAINNET_CLASSES = 126

PACS_IMAGES = {"photo": 1670, "art_painting": 2048, "cartoon": 2344, "sketch": 3929}
PACS_CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
"""In the order of the labels."""

CCC_RUN = re.compile(r"baseline_(\d+)(?:\.0)?_transition.speed_(\d+)_seed_(\d+)")
"""Folder of a run; the generator writes ``transition+speed``."""
CCC_IMAGES = 7_500_000
"""Of a run, at least: the generator fills its last shard."""
CCC_SHARD_IMAGES = 25_000
"""Of a shard, at least: the generator ends it with a step of the transition."""
