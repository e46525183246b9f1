"""Files that cannot grow, as on a disk that is full."""

import resource
from contextlib import contextmanager


@contextmanager
def limited(size: int):
    """Let every write beyond so many bytes of a file fail, in this process and its libraries."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))  # Python ignores the signal SIGXFSZ
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
