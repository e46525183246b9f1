import numpy as np
import pytest
from image_files import values, write_image
from PIL import Image

from mmseg_reservoir.datasets import DomainNet126, build_source
from mmseg_reservoir.errors import ReservoirError

DOMAINS = ("real", "painting", "clipart", "sketch")


@pytest.fixture
def root(tmp_path):
    for place, domain in enumerate(DOMAINS):
        lines = []
        for index, (name, label) in enumerate((("zebra", 125), ("anvil", 3), ("alarm clock", 1))):
            path = f"{domain}/{name}/{domain}_{index}.jpg"
            write_image(tmp_path / path, 10 + 50 * place + 10 * index, size=(12, 9))
            lines.append(f"{path} {label}\n")
        (tmp_path / f"{domain}_list.txt").write_text("".join(lines))
    return tmp_path


def test_lists_say_what_is_there(root):
    data = DomainNet126(root, resize=8, crop=6)
    assert data.names == DOMAINS
    clipart = data.domain("clipart")
    assert clipart.labels.tolist() == [125, 3, 1]
    assert values(clipart.read([2, 0])) == [130, 110]
    assert clipart.read([0]).shape == (1, 3, 6, 6)


def test_lists_may_be_elsewhere(root, tmp_path):
    (root / "lists").mkdir()
    for path in list(root.glob("*_list.txt")):
        path.rename(root / "lists" / path.name)
    with pytest.raises(ReservoirError, match=r"there is no image list .*real_list.txt"):
        DomainNet126(root)
    assert len(DomainNet126(root, lists=root / "lists").domain("real")) == 3


def test_the_source_is_one_domain_by_its_list(root):
    write_image(root / "real" / "castle" / "not_listed.jpg", 200, size=(12, 9))
    real = build_source({"type": "domainnet126", "root": root, "domain": "real"})
    assert real.labels.tolist() == [125, 3, 1]
    assert real.read([0]).shape == (1, 3, 224, 224)


def test_images_are_squeezed_to_a_square_before_the_crop(root):
    ramp = np.tile(np.linspace(0, 255, 512).astype(np.uint8)[None, :, None], (256, 1, 3))
    Image.fromarray(ramp).save(root / "real" / "zebra" / "ramp.png")
    (root / "real_list.txt").write_text("real/zebra/ramp.png 125\n")
    image = DomainNet126(root).domain("real").read([0])[0]
    # 16 of 256 pixels are cut off on each side; by the shorter side it would be a quarter.
    assert image.min() == pytest.approx(16 / 256, abs=0.01)
    assert image.max() == pytest.approx(1 - 16 / 256, abs=0.01)


@pytest.mark.parametrize("line", ["real/zebra/a.jpg", "real/zebra/a.jpg 126", "real/a.jpg x"])
def test_wrong_lines(root, line):
    (root / "real_list.txt").write_text(f"real/zebra/real_0.jpg 125\n{line}\n")
    with pytest.raises(ReservoirError, match=f"line 2 of .* got '{line}': use the lists"):
        DomainNet126(root, domains=["real"])


def test_empty_list(root):
    (root / "real_list.txt").write_text("\n")
    with pytest.raises(ReservoirError, match=r"real_list.txt is empty"):
        DomainNet126(root)
