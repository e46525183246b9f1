def test_pairs_by_path_without_suffix(small):
    survey = small.survey()
    fog = survey.found[0]
    assert list(fog.images) == ["GOPR1/0", "GOPR1/1"]
    assert fog.pairs == ["GOPR1/0", "GOPR1/1"]
    images, labels = (
        [small.image(index=i) for i in range(2)],
        [small.label(index=i) for i in range(2)],
    )
    assert fog.used == images + labels


def test_hidden_files_are_none(small):
    """What macOS leaves on foreign disks; mmengine leaves it out too."""
    small.image().with_name("._0_rgb_anon.png").write_bytes(b"\0\5\26\7")
    assert small.problems() == []


def test_linked_sequences_are_followed(small):
    folder = small.image().parent
    folder.rename(small.root / "elsewhere")
    folder.symlink_to(small.root / "elsewhere")
    assert small.problems() == []
