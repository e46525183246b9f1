"""Writes runs of CCC as its generator does: shards of JPEG files with labels and infos."""

import io
import tarfile

import numpy as np
from PIL import Image


def picture(value, size=8):
    file = io.BytesIO()
    Image.fromarray(np.full((size, size, 3), value, np.uint8)).save(file, "JPEG", quality=95)
    return file.getvalue()


def sample_files(index, value, label, pair=("fog", "snow")):
    """The three files of a sample, in the order of the generator."""
    info = f"++dir++n01++name++a.JPEG++n1++{pair[0]}++s1++1.25++n2++{pair[1]}++s2++0.5"
    return {
        f"sample_{index}.info": info.encode(),
        f"sample_{index}.input.jpg": picture(value),
        f"sample_{index}.output.cls": str(label).encode(),
    }


def write_shard(path, files):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def offsets(path):
    """Where the members of an archive begin."""
    with tarfile.open(path) as archive:
        return [member.offset for member in archive]


def write_run(folder, shards=2, per_shard=12):
    """Image ``i`` of the run has the value ``10 * i`` and the label ``i``."""
    for shard in range(shards):
        files = {}
        for index in range(per_shard):
            number = shard * per_shard + index
            pair = ("fog", "snow") if shard == 0 else ("snow", "jpeg")
            files |= sample_files(index, 10 * number, number, pair)
        write_shard(folder / f"serial_{shard:05d}.tar", files)
