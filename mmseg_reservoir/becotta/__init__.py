"""BECoTTA: mixtures of low-rank experts with gates by domain (Lee et al., ICML 2024).

The parts of the network and their warm-up on the source. What happens at test time is
``mmseg_reservoir/methods/becotta.py``. Nothing here imports mmseg.
"""

from .discriminator import DomainDiscriminator
from .inject import BecottaParts, inject, remove, select_becotta
from .mixture import (
    DomainGates,
    DomainShares,
    LowRankExperts,
    MixtureOfDomainExperts,
    domain_expert_information,
)
from .styles import STYLES, apply_styles
from .variants import DOMAINS, VARIANTS, Variant, find_variant

__all__ = [
    "DOMAINS",
    "STYLES",
    "VARIANTS",
    "BecottaParts",
    "DomainDiscriminator",
    "DomainGates",
    "DomainShares",
    "LowRankExperts",
    "MixtureOfDomainExperts",
    "Variant",
    "apply_styles",
    "domain_expert_information",
    "find_variant",
    "inject",
    "remove",
    "select_becotta",
]
