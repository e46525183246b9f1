from segformer_fixtures import mmseg_scope  # noqa: F401
