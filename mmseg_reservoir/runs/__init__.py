"""Record runs, and resume them exactly."""

from .._renamed import renamed_names

__getattr__ = renamed_names(
    __name__,
    {
        "RunSaver": "runs.run_saver.RunSaver",
        "load_generators": "runs.generators.load_generators",
        "run_identity": "runs.identity.run_identity",
        "save_generators": "runs.generators.save_generators",
        "saved_seed": "runs.run_saver.saved_seed",
        "seed_generators": "runs.generators.seed_generators",
    },
)
