"""Many runs and many cameras at a time, on the cores of one machine or on a cluster of Ray's.

Ray places processes, retries and restarts them: there is no scheduler in here. What runs in them,
:class:`CameraRun` and :class:`MergingPoint`, knows nothing of Ray. See docs/scaling.md.
"""
