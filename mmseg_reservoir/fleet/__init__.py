"""Many runs and many cameras at a time, on the cores of one machine or on a Ray cluster.

Ray places, retries and restarts processes. What runs in them, :class:`CameraRun` and
:class:`MergingPoint`, does not depend on Ray. See docs/scaling.md.
"""
