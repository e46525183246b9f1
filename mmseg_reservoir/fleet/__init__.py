"""Many runs or cameras in parallel, on the cores of one machine or on a Ray cluster.

Ray places, retries and restarts processes, so this package has no scheduler. The classes that run
in them, :class:`CameraRun` and :class:`MergingPoint`, do not use Ray. See docs/scaling.md.
"""
