"""BECoTTA: mixtures of low-rank experts with gates by domain (Lee et al., ICML 2024).

This package has the modules and their warm-up on the source, without imports of mmseg. For the
adaptation at test time see ``methods/becotta.py``.
"""

from .inject import (
    DOMAINS,
    VARIANTS,
    BecottaParts,
    Variant,
    find_variant,
    inject,
    remove,
    select_becotta,
)
from .mixture import (
    DomainDiscriminator,
    DomainGates,
    DomainShares,
    LowRankExperts,
    MixtureOfDomainExperts,
    domain_expert_information,
)
from .styles import STYLES, apply_styles

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
