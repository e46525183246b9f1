"""Whatever bytes images, labels and videos are, they are read, skipped or refused, and soon."""

import contextlib
import io
import struct
import time
import warnings
import zlib

import cv2
import hypothesis.strategies as st
import numpy as np
import pytest
from damage import damaged
from hypothesis import given
from PIL import Image

from mmseg_reservoir.datasets.check.file_facts import examine
from mmseg_reservoir.datasets.pictures import Preprocess
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.footage.frames import open_frames
from mmseg_reservoir.seg import ACDCDataset
from mmseg_reservoir.seg.bad_images import BadImage, CheckedDataset
from mmseg_reservoir.seg.label_images import write_image

SECONDS = 20.0
"""No file of a few kilobytes may take longer."""
PIPELINE = [dict(type=name) for name in ("LoadImageFromFile", "LoadAnnotations", "PackSegInputs")]
PIXELS = np.arange(16 * 24 * 4, dtype=np.uint32).reshape(16, 24, 4).astype(np.uint8)
MODES = {
    "PNG": ("L", "P", "LA", "RGB", "RGBA", "I;16", "1"),
    "JPEG": ("L", "RGB", "CMYK"),
    "BMP": ("L", "RGB"),
    "TIFF": ("L", "RGB", "I;16", "F"),
    "WEBP": ("RGB", "RGBA"),
    "GIF": ("P",),
}


def encoded(kind, mode):
    picture = Image.fromarray(PIXELS, "RGBA")
    if mode == "I;16":
        picture = Image.fromarray(PIXELS[..., 0].astype(np.uint16) * 250)
    elif mode == "F":
        picture = Image.fromarray(PIXELS[..., 0].astype(np.float32))
    else:
        picture = picture.convert("RGB").convert(mode)
    file = io.BytesIO()
    picture.save(file, kind)
    return file.getvalue()


with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    WHOLE = [encoded(kind, mode) for kind, modes in MODES.items() for mode in modes]


@st.composite
def resized_pngs(draw):
    """A picture whose header promises another size, with a right checksum."""
    data = draw(st.sampled_from(WHOLE[: len(MODES["PNG"])]))
    sides = [draw(st.sampled_from((0, 1, 7, 24, 65536, 2**31 - 1, 2**32 - 1))) for _ in range(2)]
    head = b"IHDR" + struct.pack(">II", *sides) + data[24:29]
    return data[:12] + head + struct.pack(">I", zlib.crc32(head)) + data[33:]


pictures = st.one_of(
    st.sampled_from(WHOLE),
    st.sampled_from(WHOLE).flatmap(damaged),
    resized_pngs(),
    st.binary(max_size=60),
)


@contextlib.contextmanager
def soon():
    start = time.monotonic()
    yield
    assert time.monotonic() - start < SECONDS


def use(read, *paths):
    """Read files that must stay as they are."""
    before = [path.read_bytes() for path in paths]
    with soon(), warnings.catch_warnings(), contextlib.suppress(ReservoirError):
        warnings.simplefilter("ignore")
        read()
    assert [path.read_bytes() for path in paths] == before


@given(data=pictures, suffix=st.sampled_from((".png", ".jpg", ".tif", ".webp", ".bmp", ".PNG")))
def test_frames_and_pictures(tmp_path, data, suffix):
    path = tmp_path / f"frame{suffix}"
    path.write_bytes(data)

    def frames():
        for frame in open_frames(path):
            assert frame.image.dtype == np.uint8
            assert frame.image.ndim == 3

    use(frames, path)
    use(lambda: Preprocess(resize=8, crop=8)(path), path)
    for is_label in (False, True):
        use(lambda is_label=is_label: examine(path, is_label), path)


def test_a_header_that_promises_too_many_pixels_is_skipped(tmp_path):
    head = b"IHDR" + struct.pack(">II", 2**20, 2**20) + WHOLE[0][24:29]
    path = tmp_path / "frame.png"
    path.write_bytes(WHOLE[0][:12] + head + struct.pack(">I", zlib.crc32(head)) + WHOLE[0][33:])
    source = open_frames(path)
    assert list(source) == []
    assert source.broken == 1


@pytest.mark.filterwarnings("ignore:Please pay attention your ground truth")
@given(data=pictures, hit=st.sampled_from(("image", "label", "both")))
def test_images_and_labels_of_a_stream(tmp_path, data, hit):
    image = tmp_path / "rgb_anon/fog/train/a/a_rgb_anon.png"
    label = tmp_path / "gt/fog/train/a/a_gt_labelTrainIds.png"
    write_image(image, PIXELS[..., :3].copy())
    write_image(label, PIXELS[..., 0].copy())
    for path in {"image": [image], "label": [label], "both": [image, label]}[hit]:
        path.write_bytes(data)
    dataset = ACDCDataset(data_root=str(tmp_path), condition="fog", pipeline=PIPELINE)

    def read():
        sample = CheckedDataset(dataset, skip=True)[0]
        if not isinstance(sample, BadImage):
            size = sample["inputs"].shape[-2:]
            assert sample["data_samples"].gt_sem_seg.data.shape == (1, *size)

    use(read, image, label)


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    """Small videos of three kinds, as bytes by suffix."""
    folder, found = tmp_path_factory.mktemp("videos"), {}
    for name, codec in {"a.avi": "MJPG", "b.avi": "FFV1", "c.mp4": "mp4v"}.items():
        writer = cv2.VideoWriter(str(folder / name), cv2.VideoWriter.fourcc(*codec), 5, (32, 16))
        for number in range(5):
            writer.write(np.full((16, 32, 3), 40 * number, np.uint8))
        writer.release()
        found[name] = (folder / name).read_bytes()
    return found


@given(data=st.data(), every=st.integers(1, 3))
def test_videos(videos, tmp_path, data, every):
    name = data.draw(st.sampled_from(sorted(videos)))
    path = tmp_path / name
    content = data.draw(st.one_of(damaged(videos[name]), st.binary(max_size=100)))
    path.write_bytes(content)

    def read():
        source = open_frames(path, every)
        assert source.total is None or source.total >= 0
        assert source.fps > 0
        for count, frame in enumerate(source):
            assert frame.image.ndim == 3
            assert count < 1000

    use(read, path)
