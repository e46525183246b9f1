from segformer_fixtures import images, mmseg_scope, model  # noqa: F401
