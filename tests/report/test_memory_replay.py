from mmseg_reservoir.report.memory_replay import memory_balance


def stream(visits=6, length=40):
    return [
        {"domain": "fog" if v % 2 == 0 else "night"} for v in range(visits) for _ in range(length)
    ]


def test_fifo_holds_the_newest_and_reservoir_sampling_all():
    fifo = memory_balance(stream(), "fifo", capacity=20)
    assert fifo.domains == ["fog", "night"]
    assert [row[39] for row in fifo.shares] == [1.0, 0.0]
    assert [row[79] for row in fifo.shares] == [0.0, 1.0]  # fog is forgotten
    sampled = memory_balance(stream(), "reservoir", capacity=20)
    assert [row[39] for row in sampled.shares] == [1.0, 0.0]
    assert all(0.15 < row[-1] < 0.85 for row in sampled.shares)
    assert sampled.unevenness < fifo.unevenness


def test_shares_sum_to_one_at_every_time():
    balance = memory_balance(stream(), "reservoir", capacity=8)
    assert len(balance.shares[0]) == 240
    assert all(abs(sum(column) - 1) < 1e-6 for column in zip(*balance.shares, strict=True))
