"""MMSegmentation integration: wrapper, loop, hooks and datasets of a test run."""

from mmseg_reservoir._renamed import renamed_names
from mmseg_reservoir.seg.compat import (
    enable_mmseg_without_compiled_ops,
    import_mmengine_without_transformers,
)

# This must run before mmseg is imported, and so before the other modules of this package.
import_mmengine_without_transformers()
enable_mmseg_without_compiled_ops()

from .checkpoint import StrictCheckpointHook, allow_mmengine_checkpoints  # noqa: E402
from .datasets import ACDCDataset, SHIFTDataset, UnlabeledImages  # noqa: E402
from .efficientvit import EfficientViT, EfficientViTHead  # noqa: E402
from .hooks.adaptation_hook import AdaptationHook  # noqa: E402
from .hooks.progress_hook import ProgressHook  # noqa: E402
from .hooks.pseudo_label_hook import PseudoLabelHook  # noqa: E402
from .hooks.results_hook import ResultsHook  # noqa: E402
from .hooks.resume_hook import ResumeHook  # noqa: E402
from .loop import RecurringTestLoop  # noqa: E402
from .metric import VisitIoUMetric  # noqa: E402
from .nvlabs import segformer  # noqa: E402, F401 (registers models)
from .segmentor import AdaptiveSegmentor  # noqa: E402

allow_mmengine_checkpoints()

__all__ = [
    "ACDCDataset",
    "AdaptationHook",
    "AdaptiveSegmentor",
    "EfficientViT",
    "EfficientViTHead",
    "ProgressHook",
    "PseudoLabelHook",
    "RecurringTestLoop",
    "ResultsHook",
    "ResumeHook",
    "SHIFTDataset",
    "StrictCheckpointHook",
    "UnlabeledImages",
    "VisitIoUMetric",
]

_OLD_NAMES = {
    "UnlabelledImages": "seg.datasets.UnlabeledImages",  # old name
    "FrameResult": "footage.FrameResult",
    "ReservoirInferencer": "footage.ReservoirInferencer",
}
__getattr__ = renamed_names(__name__, _OLD_NAMES)
